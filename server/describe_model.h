// A checkpoint's facts, as the service and the scheduler need them.
#pragma once
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "server/server_options.h"
#include "server/service/served_model.h"
#include "sharding/checkpoint/dtype.h"
#include "sharding/model.h"

namespace trireme::server {

// Of the checkpoint at `path`. Reads its tokenizer and generation_config, too.
//
// InvalidArgument: a malformed generation_config, tokenizer or template.
absl::StatusOr<ServedModel> DescribeModel(const sharding::Model& model, const std::string& path, sharding::DType dtype,
                                          std::uint32_t max_model_len);

// What weights and the KV cache are held in: as asked for, or by the CPU's features.
sharding::DType ChooseDType(DTypeChoice choice);

}  // namespace trireme::server
