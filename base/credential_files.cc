#include "base/credential_files.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <fstream>
#include <memory>
#include <sstream>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace trireme {
namespace {

constexpr std::uintmax_t kMaxFileBytes = 1 << 20;

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Bio = std::unique_ptr<BIO, Deleter<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Deleter<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;

absl::StatusOr<std::string> ReadFile(const std::string& file) {
  struct stat info {};
  if (stat(file.c_str(), &info) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", file));
  if (!S_ISREG(info.st_mode) || static_cast<std::uintmax_t>(info.st_size) > kMaxFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, " is not what is expected: a regular file of at most ", kMaxFileBytes, " bytes"));
  }
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream.is_open() || stream.bad()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", file));
  return text.str();
}

Bio Reader(const std::string& text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

// Called by OpenSSL for the pass phrase of an encrypted key: there is none. Without it OpenSSL asks the terminal.
int NoPassPhrase(char*, int, int, void*) { return -1; }

Certificate NextCertificate(BIO* reader) {
  return Certificate(PEM_read_bio_X509_AUX(reader, nullptr, NoPassPhrase, nullptr));
}

// The first certificate in `text`. After it the rest must be certificates too.
absl::StatusOr<Certificate> ParseCertificates(const std::string& file, const std::string& text) {
  ERR_clear_error();
  const Bio reader = Reader(text);
  Certificate first = NextCertificate(reader.get());
  if (first == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, " holds no certificate that can be read: expected PEM, a block ", "\"-----BEGIN CERTIFICATE-----\""));
  }
  int number = 2;
  while (NextCertificate(reader.get()) != nullptr) ++number;
  const bool is_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (is_end) return first;
  return absl::InvalidArgumentError(absl::StrCat(file, ": its certificate number ", number, " cannot be read"));
}

absl::StatusOr<Key> ParseKey(const std::string& file, const std::string& text) {
  const Bio reader = Reader(text);
  Key key(PEM_read_bio_PrivateKey(reader.get(), nullptr, NoPassPhrase, nullptr));
  ERR_clear_error();
  if (key != nullptr) return key;
  return absl::InvalidArgumentError(absl::StrCat(file, " holds no private key that can be read: expected PEM, a block ",
                                                 "\"-----BEGIN PRIVATE KEY-----\", not encrypted"));
}

absl::Time ToTime(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return absl::InfinitePast();
  return absl::FromTM(parts, absl::UTCTimeZone());
}

absl::Status CheckToken(const std::string& file, int line, std::string_view token) {
  if (token.size() < kMinTokenBytes) {
    return absl::InvalidArgumentError(absl::StrCat(file, ", line ", line, ": a token of ", token.size(),
                                                   " characters, must be of ", kMinTokenBytes, " at least"));
  }
  if (std::all_of(token.begin(), token.end(), absl::ascii_isgraph)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(file, ", line ", line, ": a token may consist of visible ASCII characters only"));
}

}  // namespace

absl::StatusOr<Identity> ReadIdentity(const std::string& certificate_file, const std::string& key_file) {
  Identity identity;
  ASSIGN_OR_RETURN(identity.certificate_chain, ReadFile(certificate_file));
  ASSIGN_OR_RETURN(identity.private_key, ReadFile(key_file));
  ASSIGN_OR_RETURN(const Certificate certificate, ParseCertificates(certificate_file, identity.certificate_chain));
  ASSIGN_OR_RETURN(const Key key, ParseKey(key_file, identity.private_key));
  const bool fits = X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrCat("the key in ", key_file, " is not that of the certificate in ", certificate_file));
  }
  identity.not_before = ToTime(X509_get0_notBefore(certificate.get()));
  identity.not_after = ToTime(X509_get0_notAfter(certificate.get()));
  return identity;
}

absl::StatusOr<std::string> ReadCertificates(const std::string& file) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(file));
  RETURN_IF_ERROR(ParseCertificates(file, text).status());
  return text;
}

absl::StatusOr<std::vector<std::string>> ReadTokens(const std::string& file) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(file));
  std::vector<std::string> tokens;
  std::istringstream stream(text);
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    absl::StripAsciiWhitespace(&line);
    if (line.empty() || line.starts_with('#')) continue;
    RETURN_IF_ERROR(CheckToken(file, number, line));
    tokens.push_back(std::move(line));
  }
  if (tokens.empty()) return absl::InvalidArgumentError(absl::StrCat(file, " holds no token: expected one a line"));
  return tokens;
}

bool IsReadableByAll(const std::string& file) {
  struct stat info {};
  return stat(file.c_str(), &info) == 0 && (info.st_mode & S_IROTH) != 0;
}

}  // namespace trireme
