// How long a request may be, and how much memory keys and values get: each limits the other.
#pragma once
#include <cstdint>

#include "absl/status/statusor.h"
#include "server/server_options.h"
#include "sharding/checkpoint/dtype.h"
#include "sharding/model.h"

namespace trireme::server {

struct KvCacheChoice {
  std::uint32_t max_model_len = 0;   // prompt and output together, in tokens: one such request fits alone
  std::uint64_t bytes_per_rank = 0;  // for keys and values
};

// The memory is as asked for; else 1 GiB over all ranks, but no more than `max_num_seqs` requests of full length can
// fill. The length is as asked for; else what the model was made for, or, with a warning in the log, as many tokens as
// the memory holds.
//
// InvalidArgument: a --max-model-len beyond what the model or the memory takes, which says what would do; memory for
// less than one block of `kv_block_tokens` tokens. REQUIRES: CheckTpDegree(model, options.tp_degree).
absl::StatusOr<KvCacheChoice> ChooseKvCache(const sharding::Model& model, const ServerOptions& options,
                                            sharding::DType dtype, std::uint32_t kv_block_tokens);

}  // namespace trireme::server
