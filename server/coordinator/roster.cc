#include "server/coordinator/roster.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/check.h"

namespace trireme::server {
namespace {

// Takes the same time wherever the two differ, so that a token cannot be guessed piece by piece.
bool AreEqualInConstantTime(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace

void Roster::Expect(std::uint64_t generation, std::vector<std::string> tokens) {
  MutexLock lock(mutex_);
  generation_ = generation;
  tokens_ = std::move(tokens);
}

absl::StatusOr<PeerId> Roster::Admit(const std::string& token) {
  MutexLock lock(mutex_);
  std::optional<std::size_t> found;
  for (std::size_t rank = 0; rank < tokens_.size(); ++rank) {
    if (AreEqualInConstantTime(tokens_[rank], token) && !token.empty()) found = rank;
  }
  if (!found) return absl::PermissionDeniedError("the spawn token is not that of a worker that is awaited");
  tokens_[*found].clear();
  return PeerId{.generation = generation_, .rank = static_cast<int>(*found)};
}

std::string MakeSpawnToken() {
  std::array<char, 32> bytes;
  const ssize_t got = getrandom(bytes.data(), bytes.size(), 0);
  CHECK_EQ(got, static_cast<ssize_t>(bytes.size())) << "getrandom: " << std::strerror(errno);
  return absl::BytesToHexString(absl::string_view(bytes.data(), bytes.size()));
}

}  // namespace trireme::server
