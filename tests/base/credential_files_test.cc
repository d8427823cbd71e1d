#include "base/credential_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/time/clock.h"
#include "tests/support/certificates.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kSecret[] = "0123456789abcdef";

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

class CredentialFiles : public ::testing::Test {
 protected:
  const TestFolder folder_;
};

TEST_F(CredentialFiles, ReadsACertificateAndItsKey) {
  const TestAuthority authority;
  const KeyFiles files = authority.Issue("server");
  const absl::StatusOr<Identity> identity = ReadIdentity(files.certificate, files.key);
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(identity->certificate_chain, ReadAll(files.certificate));
  EXPECT_EQ(identity->private_key, ReadAll(files.key));
  EXPECT_LE(identity->not_before, absl::Now() + absl::Minutes(1));
  EXPECT_GT(identity->not_after, absl::Now() + absl::Hours(22));
  EXPECT_LT(identity->not_after, absl::Now() + absl::Hours(26));
}

TEST_F(CredentialFiles, ReadsAnExpiredCertificate) {
  const TestAuthority authority;
  const KeyFiles files = authority.IssueExpired("old");
  const absl::StatusOr<Identity> identity = ReadIdentity(files.certificate, files.key);
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_LT(identity->not_after, absl::Now());
}

TEST_F(CredentialFiles, ReadsAChain) {
  const TestAuthority authority;
  const KeyFiles files = authority.Issue("server");
  const std::string chain =
      folder_.Write("chain.pem", ReadAll(files.certificate) + "comment\n" + ReadAll(authority.certificate()));
  EXPECT_TRUE(ReadIdentity(chain, files.key).ok());
  EXPECT_TRUE(ReadCertificates(chain).ok());
}

TEST_F(CredentialFiles, RefusesAKeyOfAnotherCertificate) {
  const TestAuthority authority;
  const KeyFiles one = authority.Issue("one");
  const KeyFiles other = authority.Issue("other");
  EXPECT_THAT(MessageOf(ReadIdentity(one.certificate, other.key).status()),
              AllOf(HasSubstr(one.certificate), HasSubstr(other.key), HasSubstr("is not that of")));
}

TEST_F(CredentialFiles, NamesTheFileThatHoldsNoPem) {
  const TestAuthority authority;
  const KeyFiles good = authority.Issue("server");
  const std::string certificate = ReadAll(good.certificate);
  for (const std::string& text : {std::string(), std::string("garbage"), std::string(1000, '\0'),
                                  certificate.substr(0, certificate.size() / 2), ReadAll(good.key)}) {
    const std::string bad = folder_.Write("bad.pem", text);
    EXPECT_THAT(MessageOf(ReadIdentity(bad, good.key).status()), HasSubstr(bad + " holds no certificate")) << text;
    EXPECT_THAT(MessageOf(ReadCertificates(bad).status()), HasSubstr(bad + " holds no certificate")) << text;
  }
  const std::string bad = folder_.Write("bad.key", certificate);
  EXPECT_THAT(MessageOf(ReadIdentity(good.certificate, bad).status()), HasSubstr(bad + " holds no private key"));
}

TEST_F(CredentialFiles, RefusesAChainWithABrokenEnd) {
  const TestAuthority authority;
  const std::string certificate = ReadAll(authority.certificate());
  const std::string chain = folder_.Write("chain.pem", certificate + certificate.substr(0, certificate.size() / 2));
  EXPECT_THAT(MessageOf(ReadCertificates(chain).status()), HasSubstr("certificate number 2 cannot be read"));
}

// OpenSSL would ask the terminal for a pass phrase, and so wait for ever.
TEST_F(CredentialFiles, RefusesAnEncryptedKey) {
  const TestAuthority authority;
  const KeyFiles files = authority.Issue("server");
  const std::string encrypted = folder_.File("encrypted.key");
  ASSERT_EQ(system(("openssl pkey -aes256 -passout pass:x -in " + files.key + " -out " + encrypted).c_str()), 0);
  EXPECT_THAT(MessageOf(ReadIdentity(files.certificate, encrypted).status()),
              AllOf(HasSubstr(encrypted), HasSubstr("not encrypted")));
}

TEST_F(CredentialFiles, NamesAFileThatCannotBeRead) {
  const std::string missing = folder_.File("missing");
  for (const absl::Status& status :
       {ReadIdentity(missing, missing).status(), ReadCertificates(missing).status(), ReadTokens(missing).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(MessageOf(status), HasSubstr(missing));
  }
  EXPECT_THAT(MessageOf(ReadTokens("/dev/zero").status()), HasSubstr("/dev/zero"));
  EXPECT_THAT(MessageOf(ReadTokens("/").status()), HasSubstr("a regular file"));
  const std::string huge = folder_.Write("huge", std::string((1 << 20) + 1, 'x'));
  EXPECT_THAT(MessageOf(ReadTokens(huge).status()), HasSubstr("at most 1048576 bytes"));
}

TEST_F(CredentialFiles, ReadsTokensLineByLine) {
  const std::string file =
      folder_.Write("tokens", "# operators\n\n  0123456789abcdef \r\n#no-token-either-0123\nfedcba9876543210");
  const absl::StatusOr<std::vector<std::string>> tokens = ReadTokens(file);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_THAT(*tokens, ElementsAre("0123456789abcdef", "fedcba9876543210"));
}

TEST_F(CredentialFiles, NamesTheLineOfABadTokenAndNotTheToken) {
  const std::string file = folder_.File("tokens");
  folder_.Write("tokens", std::string(kSecret) + "\nabc15characters\n");
  EXPECT_THAT(MessageOf(ReadTokens(file).status()),
              AllOf(HasSubstr(file + ", line 2"), HasSubstr("16"), Not(HasSubstr("abc15"))));
  folder_.Write("tokens", std::string(kSecret) + " " + kSecret);
  EXPECT_THAT(MessageOf(ReadTokens(file).status()), AllOf(HasSubstr(", line 1"), Not(HasSubstr(kSecret))));
  folder_.Write("tokens", "0123456789abcde\xc3\xa9");
  EXPECT_THAT(MessageOf(ReadTokens(file).status()), HasSubstr("visible ASCII"));
}

TEST_F(CredentialFiles, RefusesAFileWithoutTokens) {
  for (const char* text : {"", "\n\n", "# 0123456789abcdef\n"}) {
    EXPECT_THAT(MessageOf(ReadTokens(folder_.Write("tokens", text)).status()), HasSubstr("holds no token")) << text;
  }
}

TEST_F(CredentialFiles, KnowsWhoMayReadAFile) {
  const std::string file = folder_.Write("tokens", kSecret);
  EXPECT_FALSE(IsReadableByAll(file));
  std::filesystem::permissions(file, std::filesystem::perms::others_read, std::filesystem::perm_options::add);
  EXPECT_TRUE(IsReadableByAll(file));
  EXPECT_FALSE(IsReadableByAll(folder_.File("missing")));
}

}  // namespace
}  // namespace trireme
