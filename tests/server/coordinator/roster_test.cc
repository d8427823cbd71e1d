#include "server/coordinator/roster.h"

#include <gtest/gtest.h>

#include <set>

namespace trireme::server {
namespace {

TEST(Roster, GivesEachTokenItsRankOnce) {
  Roster roster;
  roster.Expect(7, {"aa", "bb"});
  EXPECT_EQ(*roster.Admit("bb"), (PeerId{.generation = 7, .rank = 1}));
  EXPECT_EQ(*roster.Admit("aa"), (PeerId{.generation = 7, .rank = 0}));
  EXPECT_EQ(roster.Admit("bb").status().code(), absl::StatusCode::kPermissionDenied);
}

TEST(Roster, RefusesStrangersAndFormerGroups) {
  Roster roster;
  EXPECT_FALSE(roster.Admit("").ok());
  roster.Expect(1, {"aa"});
  for (const char* token : {"", "a", "ab", "aaa"}) EXPECT_FALSE(roster.Admit(token).ok()) << token;
  roster.Expect(2, {"cc"});
  EXPECT_FALSE(roster.Admit("aa").ok());
  EXPECT_TRUE(roster.Admit("cc").ok());
  EXPECT_FALSE(roster.Admit("").ok()) << "a used token is not the empty one";
}

TEST(Roster, TokensAreLongAndDiffer) {
  std::set<std::string> tokens;
  for (int i = 0; i < 100; ++i) tokens.insert(MakeSpawnToken());
  EXPECT_EQ(tokens.size(), 100u);
  EXPECT_EQ(tokens.begin()->size(), 64u);
}

}  // namespace
}  // namespace trireme::server
