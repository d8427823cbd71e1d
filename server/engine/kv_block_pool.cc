#include "server/engine/kv_block_pool.h"

#include "base/check.h"

namespace trireme::server {

KvBlockPool::KvBlockPool(std::uint32_t num_blocks) : num_blocks_(num_blocks), is_free_(num_blocks, true) {
  free_.reserve(num_blocks);
  for (std::uint32_t block = num_blocks; block > 0; --block) free_.push_back(block - 1);
}

std::vector<std::uint32_t> KvBlockPool::Allocate(std::uint32_t count) {
  CHECK_LE(count, free_.size());
  std::vector<std::uint32_t> blocks(free_.rbegin(), free_.rbegin() + count);
  free_.resize(free_.size() - count);
  for (const std::uint32_t block : blocks) is_free_[block] = false;
  return blocks;
}

void KvBlockPool::Release(const std::vector<std::uint32_t>& blocks) {
  for (const std::uint32_t block : blocks) {
    CHECK_LT(block, num_blocks_);
    CHECK(!is_free_[block]) << "block " << block << " is released twice";
    is_free_[block] = true;
    free_.push_back(block);
  }
}

}  // namespace trireme::server
