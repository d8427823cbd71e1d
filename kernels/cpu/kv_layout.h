// Where things lie in a KV cache (kernels/kv_cache.h has the picture).
#pragma once
#include <cstdint>

#include "kernels/kv_cache.h"

namespace trireme::kernels::cpu {

// The first element of a KV head's part of a block: [head_dim][block_size] of keys, [block_size][head_dim] of values.
constexpr std::int64_t KvHeadOffset(const KvCacheShape& shape, std::int64_t block, std::int64_t kv_head) {
  return (block * shape.num_kv_heads + kv_head) * shape.head_dim * shape.block_size;
}

// REQUIRES, as CHECKs, of a cache that is about to be used.
void CheckKvCacheShape(const KvCacheShape& shape);

}  // namespace trireme::kernels::cpu
