// The free list of one KV group's blocks. The blocks themselves lie in the workers; here they are numbers.
#pragma once
#include <cstdint>
#include <vector>

namespace trireme::server {

// Not thread-safe: the engine's thread owns it.
class KvBlockPool {
 public:
  explicit KvBlockPool(std::uint32_t num_blocks);

  std::uint32_t num_blocks() const { return num_blocks_; }
  std::uint32_t num_free() const { return static_cast<std::uint32_t>(free_.size()); }

  // REQUIRES: count <= num_free().
  std::vector<std::uint32_t> Allocate(std::uint32_t count);
  // REQUIRES: allocated and not released since.
  void Release(const std::vector<std::uint32_t>& blocks);

 private:
  std::uint32_t num_blocks_;
  std::vector<std::uint32_t> free_;  // a stack: what was released last is still warm in the workers' caches
  std::vector<bool> is_free_;
};

}  // namespace trireme::server
