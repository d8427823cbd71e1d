// The memory of keys and values on this rank. For each KV group a pool of blocks; a block holds kv_block_tokens tokens
// of all layers of its group. Which sequence has which block is the front end's business.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/kv_cache.h"
#include "sharding/program/compiled_program.h"
#include "worker/ops.h"

namespace trireme::worker {

struct KvCacheOptions {
  std::vector<sharding::LocalKvGroup> groups;
  std::uint64_t max_bytes = 0;
  std::uint32_t block_tokens = 0;  // > 0
  kernels::ElementType type = kernels::ElementType::kFloat32;
};

class KvCache {
 public:
  // Every group gets as many blocks as every other, as many as max_bytes hold.
  // ResourceExhausted, with the sums, if not even one fits or there is no such memory.
  static absl::StatusOr<std::unique_ptr<KvCache>> Allocate(const KvCacheOptions& options, Ops& ops);

  std::uint64_t size_bytes() const { return size_bytes_; }
  std::uint32_t num_blocks() const { return num_blocks_; }  // of each group

  // Of a layer: lies in this object's memory.
  const kernels::cpu::KvCache& layer(int group, int layer_in_group) const { return layers_[group][layer_in_group]; }

 private:
  std::unique_ptr<DeviceMemory> memory_;
  std::uint64_t size_bytes_ = 0;
  std::vector<std::vector<kernels::cpu::KvCache>> layers_;  // by group and layer
  std::uint32_t num_blocks_ = 0;
};

}  // namespace trireme::worker
