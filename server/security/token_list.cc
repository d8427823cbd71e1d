#include "server/security/token_list.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace trireme::server {
namespace {

constexpr std::string_view kScheme = "Bearer ";

}  // namespace

TokenList::TokenList(const std::vector<std::string>& tokens) {
  for (const std::string& token : tokens) digests_.push_back(DigestOf(token));
}

TokenList::Digest TokenList::DigestOf(std::string_view token) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  return digest;
}

absl::Status TokenList::Check(std::string_view authorization) const {
  const absl::string_view scheme(authorization.data(), std::min(authorization.size(), kScheme.size()));
  if (!absl::EqualsIgnoreCase(scheme, absl::string_view(kScheme.data(), kScheme.size()))) {
    return absl::UnauthenticatedError("this server needs a token: send metadata \"authorization: Bearer TOKEN\"");
  }
  const Digest digest = DigestOf(authorization.substr(kScheme.size()));
  bool is_known = false;
  for (const Digest& known : digests_) is_known |= CRYPTO_memcmp(known.data(), digest.data(), digest.size()) == 0;
  if (is_known) return absl::OkStatus();
  return absl::UnauthenticatedError("the token is not one that this server knows");
}

}  // namespace trireme::server
