// Who may take a rank: the tokens of the processes that were started for the present group.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/coordinator/control_stream.h"

namespace trireme::server {

// Thread-safe.
class Roster {
 public:
  // From now on only `tokens`, in rank order, are good: each for one stream.
  void Expect(std::uint64_t generation, std::vector<std::string> tokens);

  // PERMISSION_DENIED for a token that is unknown, of a former group, or used.
  absl::StatusOr<PeerId> Admit(const std::string& token);

 private:
  Mutex mutex_;
  std::uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> tokens_ ABSL_GUARDED_BY(mutex_);  // empty once used
};

// 256 random bits in hexadecimal.
std::string MakeSpawnToken();

}  // namespace trireme::server
