// Bearer tokens that a server accepts.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace trireme::server {

// Immutable. The tokens themselves are not kept, only their SHA-256.
class TokenList {
 public:
  explicit TokenList(const std::vector<std::string>& tokens);

  // Checks the value of an `authorization` header: "Bearer TOKEN"; the scheme's case does not matter. UNAUTHENTICATED
  // with a text for the client that tells nothing of the tokens. Takes the same time whichever token it is, and whether
  // it is one.
  absl::Status Check(std::string_view authorization) const;

 private:
  using Digest = std::array<unsigned char, 32>;

  static Digest DigestOf(std::string_view token);

  std::vector<Digest> digests_;
};

}  // namespace trireme::server
