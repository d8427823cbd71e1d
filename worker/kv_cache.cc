#include "worker/kv_cache.h"

#include <algorithm>
#include <limits>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace trireme::worker {
namespace {

using kernels::cpu::KvCacheShape;

KvCacheShape ShapeOf(const sharding::LocalKvGroup& group, const KvCacheOptions& options, std::int64_t num_blocks) {
  return {.num_blocks = num_blocks,
          .block_size = options.block_tokens,
          .num_kv_heads = group.num_kv_heads,
          .head_dim = group.head_dim,
          .type = options.type};
}

// Of keys and values of all layers of all groups.
std::uint64_t BytesFor(const KvCacheOptions& options, std::int64_t num_blocks) {
  std::uint64_t bytes = 0;
  for (const sharding::LocalKvGroup& group : options.groups) {
    bytes += 2 * group.num_layers * static_cast<std::uint64_t>(KvCacheBytes(ShapeOf(group, options, num_blocks)));
  }
  return bytes;
}

// A rank without KV heads needs no memory for its blocks, but ids of blocks are 32 bits wide.
std::uint64_t NumBlocks(const KvCacheOptions& options) {
  const std::uint64_t most = std::numeric_limits<std::int32_t>::max();
  const std::uint64_t bytes_per_block = BytesFor(options, 1);
  return bytes_per_block == 0 ? most : std::min(options.max_bytes / bytes_per_block, most);
}

}  // namespace

absl::StatusOr<std::unique_ptr<KvCache>> KvCache::Allocate(const KvCacheOptions& options, Ops& ops) {
  const std::uint64_t num_blocks = NumBlocks(options);
  if (num_blocks == 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a KV block of ", options.block_tokens, " tokens takes ", BytesFor(options, 1),
                     " bytes on this rank, but its KV cache may only take ", options.max_bytes));
  }
  auto cache = absl::WrapUnique(new KvCache);
  cache->num_blocks_ = static_cast<std::uint32_t>(num_blocks);
  cache->size_bytes_ = BytesFor(options, cache->num_blocks_);
  ASSIGN_OR_RETURN(cache->memory_, ops.Allocate(cache->size_bytes_));
  std::byte* next = cache->memory_->data();
  for (const sharding::LocalKvGroup& group : options.groups) {
    const KvCacheShape shape = ShapeOf(group, options, cache->num_blocks_);
    std::vector<kernels::cpu::KvCache>& layers = cache->layers_.emplace_back();
    for (int i = 0; i < group.num_layers; ++i, next += 2 * KvCacheBytes(shape)) {
      layers.push_back({.keys = next, .values = next + KvCacheBytes(shape), .shape = shape});
    }
  }
  return cache;
}

}  // namespace trireme::worker
