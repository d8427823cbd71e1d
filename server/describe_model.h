// A checkpoint's facts, as the service and the scheduler need them.
#pragma once
#include <cstdint>

#include "absl/status/statusor.h"
#include "server/server_options.h"
#include "server/service/served_model.h"
#include "sharding/checkpoint/dtype.h"
#include "sharding/model.h"

namespace trireme::server {

// Reads the tokenizer and generation_config, too.
//
// InvalidArgument: --max-model-len beyond what the model takes; a malformed generation_config, tokenizer or template.
absl::StatusOr<ServedModel> DescribeModel(const sharding::Model& model, const ServerOptions& options,
                                          sharding::DType dtype);

// What weights and the KV cache are held in: as asked for, or by the CPU's features.
sharding::DType ChooseDType(DTypeChoice choice);

// Memory for keys and values on each rank, in bytes: as asked for; else 1 GiB over all ranks, but no more than
// `max_num_seqs` requests of `max_model_len` tokens can fill under the model's plan.
absl::StatusOr<std::uint64_t> ChooseKvCacheBytes(const sharding::Model& model, const ServerOptions& options,
                                                 sharding::DType dtype, std::uint32_t max_model_len,
                                                 std::uint32_t kv_block_tokens);

}  // namespace trireme::server
