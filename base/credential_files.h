// Certificates, keys and tokens from files, checked before anything is done with them, for both ends of a connection:
// TLS libraries and gRPC name no file when one is wrong. No secret is in any error.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace trireme {

// What one end of a connection shows of itself, as PEM text.
struct Identity {
  std::string certificate_chain;  // its own certificate first
  std::string private_key;
  absl::Time not_before;  // of its own certificate
  absl::Time not_after;
};

// Reads a chain of certificates and the key of the first. An error names the file: it cannot be read, holds no PEM
// block of that kind, is encrypted, or the key is not that of the certificate. A certificate that has expired is no
// error: clocks differ, and the peer is to judge.
absl::StatusOr<Identity> ReadIdentity(const std::string& certificate_file, const std::string& key_file);

// Reads one or more certificates of authorities, as PEM text. Errors as above.
absl::StatusOr<std::string> ReadCertificates(const std::string& file);

// Shorter tokens could be guessed.
inline constexpr std::size_t kMinTokenBytes = 16;

// Reads bearer tokens: one a line, of at least kMinTokenBytes visible ASCII characters; blank lines and lines that
// begin with # do not count, nor do spaces around a token. InvalidArgument names the file and the line, or says that
// there is no token.
absl::StatusOr<std::vector<std::string>> ReadTokens(const std::string& file);

// Whether every user of this host may read the file. False for one that is not there.
bool IsReadableByAll(const std::string& file);

}  // namespace trireme
