#include "server/security/token_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace trireme::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kFirst[] = "first-token-0123456789";
constexpr char kSecond[] = "second-token-0123456789";

TEST(TokenList, KnowsEachToken) {
  const TokenList tokens({kFirst, kSecond});
  EXPECT_EQ(tokens.Check(absl::StrCat("Bearer ", kFirst)), absl::OkStatus());
  EXPECT_EQ(tokens.Check(absl::StrCat("Bearer ", kSecond)), absl::OkStatus());
  EXPECT_EQ(tokens.Check(absl::StrCat("bearer ", kSecond)), absl::OkStatus()) << "schemes have no case";
}

TEST(TokenList, RefusesWhatIsNoToken) {
  const TokenList tokens({kFirst, kSecond});
  const std::string first = kFirst;
  for (const std::string& value :
       {std::string(), std::string("B"), std::string("Bearer"), std::string("Bearer "), first, "Basic " + first,
        "Bearer " + first.substr(1), "Bearer " + first + "x", "Bearer  " + first, "Bearer " + first + "\n",
        std::string("Bearer First-token-0123456789"), "Bearer " + first + "," + kSecond,
        "Bearer " + std::string(100'000, 'x'), "Bearer " + first + std::string(1, '\0')}) {
    const absl::Status status = tokens.Check(value);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << value;
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("first"))) << value;
  }
}

TEST(TokenList, TellsTheOneWhoSentNoneWhatToSend) {
  EXPECT_THAT(std::string(TokenList({kFirst}).Check("").message()), HasSubstr("authorization: Bearer TOKEN"));
}

TEST(TokenList, WithoutTokensKnowsNone) { EXPECT_FALSE(TokenList({}).Check("Bearer ").ok()); }

}  // namespace
}  // namespace trireme::server
