// gRPC's own messages as lines of our log.
#pragma once
#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "base/mutex.h"

namespace trireme::server {

// Lets one event pass a second, so that strangers (whose failed TLS handshakes gRPC tells of) cannot fill the log.
// Thread-safe.
class OncePerSecond {
 public:
  // How many events were held back since the last one that passed; nothing if this one is held back too.
  std::optional<std::uint64_t> Pass(absl::Time now);

 private:
  Mutex mutex_;
  absl::Time next_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::uint64_t num_held_back_ ABSL_GUARDED_BY(mutex_) = 0;
};

// From now on, for the whole process, instead of lines of gRPC's own format on stderr. Which messages there are is up to
// GRPC_VERBOSITY: by default errors only.
void TakeOverGrpcLog();

}  // namespace trireme::server
