// Compares what a program needs with what a checkpoint has. A step of OpenModel (model.h).
#pragma once
#include <map>
#include <string>

#include "absl/status/status.h"
#include "sharding/checkpoint/tensor_info.h"
#include "sharding/families/decoder_spec.h"
#include "sharding/program/program.h"

namespace trireme::sharding {

// GGUF's divisors of inv_freq. A tensor of the file that is no parameter: OpenModel folds it into the rope tables.
inline constexpr char kRopeDivisors[] = "rope_freqs.weight";

// InvalidArgument, all at once, by name, a kind a line: tensors that are missing, not known, of a wrong
// shape, of an element type that cannot be read. Known without being parameters are
// DecoderSpec::harmless_tensors, a tied head's copy of the embedding, and kRopeDivisors.
absl::Status CheckTensors(const Program& program, const DecoderSpec& spec,
                          const std::map<std::string, TensorInfo>& tensors);

}  // namespace trireme::sharding
