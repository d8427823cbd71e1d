#include "worker/kv_cache.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/cpu_ops.h"

namespace trireme::worker {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A block of 16 tokens takes 2 · 3 · 2 · 16 · 8 · 4 = 6,144 bytes in float32.
KvCacheOptions Options(std::uint64_t max_bytes) {
  return {.groups = {{.num_layers = 3, .num_kv_heads = 2, .head_dim = 8}}, .max_bytes = max_bytes, .block_tokens = 16};
}

TEST(KvCache, HasAsManyBlocksAsFit) {
  const auto ops = MakeCpuOps({});
  const auto cache = KvCache::Allocate(Options(10 * 6144 + 6143), *ops);
  ASSERT_TRUE(cache.ok()) << cache.status();
  EXPECT_EQ((*cache)->num_blocks(), 10u);
  EXPECT_EQ((*cache)->size_bytes(), 10 * 6144u);
}

TEST(KvCache, HalfTheBytesInBfloat16) {
  const auto ops = MakeCpuOps({});
  KvCacheOptions options = Options(10 * 6144);
  options.type = kernels::ElementType::kBfloat16;
  const auto cache = KvCache::Allocate(options, *ops);
  ASSERT_TRUE(cache.ok()) << cache.status();
  EXPECT_EQ((*cache)->num_blocks(), 20u);
}

TEST(KvCache, LayersLieBehindEachOther) {
  const auto ops = MakeCpuOps({});
  KvCacheOptions options = Options(3 * (6144 + 1024));
  options.groups.push_back({.num_layers = 1, .num_kv_heads = 1, .head_dim = 8});  // 1,024 bytes a block
  const auto cache = KvCache::Allocate(options, *ops);
  ASSERT_TRUE(cache.ok()) << cache.status();
  EXPECT_EQ((*cache)->num_blocks(), 3u);
  const auto at = [&](int group, int layer) {
    return static_cast<const std::byte*>((*cache)->layer(group, layer).keys) -
           static_cast<const std::byte*>((*cache)->layer(0, 0).keys);
  };
  EXPECT_EQ(at(0, 1), 3 * 2048);
  EXPECT_EQ(at(0, 2), 3 * 4096);
  EXPECT_EQ(at(1, 0), 3 * 6144);
  const kernels::cpu::KvCache& last = (*cache)->layer(1, 0);
  EXPECT_EQ(static_cast<std::byte*>(last.values) - static_cast<std::byte*>(last.keys), 3 * 512);
  EXPECT_EQ(last.shape.num_kv_heads, 1);
}

TEST(KvCache, SaysWhatABlockTakesWhereNoneFits) {
  const auto ops = MakeCpuOps({});
  const auto cache = KvCache::Allocate(Options(6143), *ops);
  EXPECT_EQ(cache.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(cache.status().message()), AllOf(HasSubstr("16 tokens takes 6144 bytes"), HasSubstr("6143")));
}

TEST(KvCache, SaysWhereThereIsNoSuchMemory) {
  const auto ops = MakeCpuOps({});
  KvCacheOptions options = Options(std::uint64_t{1} << 62);
  options.groups[0].num_kv_heads = 1 << 20;
  options.groups[0].num_layers = 1 << 10;
  EXPECT_EQ(KvCache::Allocate(options, *ops).status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace trireme::worker
