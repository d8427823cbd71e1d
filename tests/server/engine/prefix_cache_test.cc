#include "server/engine/prefix_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>

namespace trireme::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Tokens = std::vector<std::uint32_t>;

// Registers all full blocks of `tokens`, which the cache does not know yet, in new blocks; returns those.
Tokens Put(PrefixCache& cache, const std::string& salt, const Tokens& tokens, std::uint32_t block_tokens = 2) {
  const Tokens blocks = cache.Allocate(static_cast<std::uint32_t>(tokens.size() / block_tokens));
  PrefixId id = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    id = cache.Register(id, salt, std::span(tokens).subspan(i * block_tokens, block_tokens), blocks[i]);
  }
  return blocks;
}

TEST(PrefixCache, FindsTheLongestPrefixInWholeBlocks) {
  PrefixCache cache(10, 2);
  EXPECT_THAT(cache.Find("", Tokens{1, 2, 3, 4}).blocks, IsEmpty());
  const Tokens blocks = Put(cache, "", {1, 2, 3, 4, 5, 6});
  const auto found = [&](const Tokens& tokens) { return cache.Find("", tokens).blocks; };
  EXPECT_EQ(found({1, 2, 3, 4, 5, 6, 7, 8}), blocks);
  EXPECT_EQ(found({1, 2, 3, 4, 5, 6}), blocks);
  EXPECT_THAT(found({1, 2, 3, 4, 5}), ElementsAre(blocks[0], blocks[1]));
  EXPECT_THAT(found({1, 2, 3, 9, 5, 6}), ElementsAre(blocks[0]));
  EXPECT_THAT(found({1, 2}), ElementsAre(blocks[0]));
  EXPECT_THAT(found({1}), IsEmpty());
  EXPECT_THAT(found({}), IsEmpty());
  EXPECT_THAT(found({3, 4, 5, 6}), IsEmpty());  // the same tokens at another place
}

TEST(PrefixCache, KeepsSaltsApart) {
  PrefixCache cache(10, 2);
  const Tokens of_a = Put(cache, "a", {1, 2, 3, 4});
  EXPECT_THAT(cache.Find("", Tokens{1, 2, 3, 4}).blocks, IsEmpty());
  EXPECT_THAT(cache.Find("b", Tokens{1, 2, 3, 4}).blocks, IsEmpty());
  const Tokens of_b = Put(cache, "b", {1, 2, 3, 4});
  EXPECT_EQ(cache.Find("a", Tokens{1, 2, 3, 4}).blocks, of_a);
  EXPECT_EQ(cache.Find("b", Tokens{1, 2, 3, 4}).blocks, of_b);
}

TEST(PrefixCache, KeepsReleasedBlocksFindableThoughTheyAreFree) {
  PrefixCache cache(4, 2);
  const Tokens blocks = Put(cache, "", {1, 2, 3, 4});
  EXPECT_EQ(cache.num_free(), 2u);
  EXPECT_EQ(cache.Find("", Tokens{1, 2, 3, 4}).num_held, 2u);
  cache.Release(blocks);
  EXPECT_EQ(cache.num_free(), 4u);
  const CachedPrefix prefix = cache.Find("", Tokens{1, 2, 3, 4});
  EXPECT_EQ(prefix.blocks, blocks);
  EXPECT_EQ(prefix.num_held, 0u);
  cache.Hold(prefix.blocks);
  EXPECT_EQ(cache.num_free(), 2u);
}

TEST(PrefixCache, FreesABlockWithItsLastHolder) {
  PrefixCache cache(2, 2);
  const Tokens blocks = Put(cache, "", {1, 2, 3, 4});
  cache.Hold(std::span(blocks).first(1));
  cache.Release(blocks);
  EXPECT_EQ(cache.num_free(), 1u);
  EXPECT_EQ(cache.Find("", Tokens{1, 2, 3, 4}).num_held, 1u);
  cache.Release(std::span(blocks).first(1));
  EXPECT_EQ(cache.num_free(), 2u);
}

TEST(PrefixCache, CountsWhatAReleaseWouldNotFree) {
  PrefixCache cache(9, 2);
  const Tokens blocks = Put(cache, "", {1, 2, 3, 4, 5, 6}), own = cache.Allocate(2);
  const auto count = [&](std::vector<Tokens> lists) {
    return cache.CountLasting(std::vector<std::span<const std::uint32_t>>(lists.begin(), lists.end()));
  };
  EXPECT_THAT(count({}), IsEmpty());
  EXPECT_THAT(count({blocks, {}, own}), ElementsAre(0u, 0u, 0u));
  const Tokens shared = {blocks[0], blocks[1]};
  cache.Hold(shared);
  cache.Hold(std::span(shared).first(1));
  EXPECT_THAT(count({blocks}), ElementsAre(2u));
  EXPECT_THAT(count({shared, blocks}), ElementsAre(2u, 1u));
  EXPECT_THAT(count({blocks, shared, {blocks[0]}}), ElementsAre(2u, 1u, 0u));
}

TEST(PrefixCache, ForgetsTheLeastRecentlyUsedAndItsEndFirst) {
  PrefixCache cache(6, 1);
  const Tokens first = Put(cache, "", {1, 2}, 1), second = Put(cache, "", {8, 9}, 1);
  cache.Release(first);
  cache.Release(second);
  const auto length = [&](const Tokens& tokens) { return cache.Find("", tokens).blocks.size(); };
  cache.Allocate(2);  // there are two without content
  EXPECT_EQ(length({1, 2}), 2u);
  EXPECT_THAT(cache.Allocate(1), ElementsAre(first[1]));
  EXPECT_EQ(length({1, 2}), 1u);
  EXPECT_EQ(length({8, 9}), 2u);
  cache.Hold(std::span(first).first(1));  // used again: now the other is older
  cache.Release(std::span(first).first(1));
  EXPECT_THAT(cache.Allocate(2), testing::UnorderedElementsAre(second[0], second[1]));
  EXPECT_EQ(length({1, 2}), 1u);
  cache.Allocate(1);
  EXPECT_EQ(length({1, 2}), 0u);
  EXPECT_EQ(cache.num_free(), 0u);
}

TEST(PrefixCache, KeepsTheFirstOfTwoBlocksWithTheSameTokens) {
  PrefixCache cache(4, 2);
  const Tokens first = Put(cache, "", {1, 2}), second = Put(cache, "", {1, 2, 3, 4});
  EXPECT_THAT(cache.Find("", Tokens{1, 2, 3, 4}).blocks, ElementsAre(first[0], second[1]));
  cache.Release(second);
  cache.Release(first);
  EXPECT_EQ(cache.num_free(), 4u);
}

// The end of a prefix may be held by one that had the beginning in a block of its own.
TEST(PrefixCache, FindsNothingBehindAForgottenBlock) {
  PrefixCache cache(3, 2);
  const Tokens first = Put(cache, "", {1, 2}), second = Put(cache, "", {1, 2, 3, 4});
  cache.Release(first);
  EXPECT_EQ(cache.Allocate(1), first);
  EXPECT_THAT(cache.Find("", Tokens{1, 2, 3, 4}).blocks, IsEmpty());
  cache.Release(first);
  Put(cache, "", {1, 2});  // comes back under another name
  EXPECT_EQ(cache.Find("", Tokens{1, 2, 3, 4}).blocks.size(), 1u);
  cache.Release(second);
  EXPECT_EQ(cache.num_free(), 2u);
}

TEST(PrefixCache, MayHaveNoBlocks) {
  PrefixCache cache(0, 4);
  EXPECT_EQ(cache.num_free(), 0u);
  EXPECT_THAT(cache.Allocate(0), IsEmpty());
}

TEST(PrefixCacheDeathTest, CatchesOurMistakes) {
  PrefixCache cache(2, 2);
  const Tokens blocks = cache.Allocate(1);
  EXPECT_DEATH(cache.Allocate(2), "2 against 1");
  EXPECT_DEATH(cache.Hold(blocks), "is not cached");
  EXPECT_DEATH(cache.Register(0, "", Tokens{1}, blocks[0]), "1 against 2");
  cache.Register(0, "", Tokens{1, 2}, blocks[0]);
  EXPECT_DEATH(cache.Register(0, "", Tokens{3, 4}, blocks[0]), "registered twice");
  cache.Release(blocks);
  EXPECT_DEATH(cache.Release(blocks), "released twice");
}

// Random use against what must be true: what is found has the content that was registered, whoever holds a block keeps
// it, and no block is lost.
TEST(PrefixCache, NeverGivesAwayWhatIsHeldNorFindsWhatIsNotThere) {
  std::mt19937 random(3);
  const auto uniform = [&](std::uint32_t from, std::uint32_t to) {
    return std::uniform_int_distribution<std::uint32_t>(from, to)(random);
  };
  PrefixCache cache(12, 2);
  std::vector<Tokens> content(12);  // per block, all tokens up to its end
  struct Holder {
    Tokens tokens, blocks;
  };
  std::vector<Holder> holders;
  std::uint64_t num_found = 0;
  for (int i = 0; i < 50000; ++i) {
    if (!holders.empty() && uniform(0, 1) == 0) {
      const std::size_t which = uniform(0, static_cast<std::uint32_t>(holders.size()) - 1);
      cache.Release(holders[which].blocks);
      holders.erase(holders.begin() + which);
      continue;
    }
    Tokens tokens(2 * uniform(1, 4));
    for (std::uint32_t& token : tokens) token = uniform(0, 1);
    const CachedPrefix prefix = cache.Find("", tokens);
    num_found += prefix.blocks.size();
    for (std::size_t j = 0; j < prefix.blocks.size(); ++j) {
      ASSERT_EQ(content[prefix.blocks[j]], Tokens(tokens.begin(), tokens.begin() + 2 * (j + 1)));
    }
    const auto num_new = static_cast<std::uint32_t>(tokens.size() / 2 - prefix.blocks.size());
    if (tokens.size() / 2 - prefix.num_held > cache.num_free()) continue;
    cache.Hold(prefix.blocks);
    Holder holder{tokens, prefix.blocks};
    PrefixId id = prefix.id;
    for (const std::uint32_t block : cache.Allocate(num_new)) {
      for (const Holder& other : holders) ASSERT_EQ(std::count(other.blocks.begin(), other.blocks.end(), block), 0);
      ASSERT_EQ(std::count(holder.blocks.begin(), holder.blocks.end(), block), 0);
      const std::size_t begin = 2 * holder.blocks.size();
      content[block] = Tokens(tokens.begin(), tokens.begin() + begin + 2);
      id = cache.Register(id, "", std::span(tokens).subspan(begin, 2), block);
      holder.blocks.push_back(block);
    }
    holders.push_back(std::move(holder));
    std::set<std::uint32_t> held;
    for (const Holder& each : holders) held.insert(each.blocks.begin(), each.blocks.end());
    ASSERT_EQ(cache.num_free(), 12 - held.size());
  }
  EXPECT_GT(num_found, 10000u);
}

}  // namespace
}  // namespace trireme::server
