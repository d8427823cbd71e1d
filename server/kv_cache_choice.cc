#include "server/kv_cache_choice.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/logging.h"
#include "base/status_macros.h"
#include "server/engine/gate.h"
#include "server/engine/scheduler.h"
#include "sharding/describe.h"

namespace trireme::server {
namespace {

using sharding::DType;

constexpr std::uint64_t kDefaultKvCacheBytes = std::uint64_t{1} << 30;

// Of one rank; all have the same.
absl::StatusOr<std::uint64_t> KvBytesPerToken(const sharding::Model& model, std::uint32_t tp_degree, DType dtype) {
  const int element_bytes = dtype == DType::kBF16 ? 2 : 4;
  ASSIGN_OR_RETURN(const sharding::CompiledProgram program,
                   sharding::Compile(model.program, model.plan, {.index = 0, .world = static_cast<int>(tp_degree)}));
  return sharding::Describe(program, {.weights = element_bytes, .kv_cache = element_bytes}).kv_cache_bytes_per_token;
}

absl::StatusOr<std::uint32_t> WantedLength(const sharding::DecoderSpec& spec, const ServerOptions& options) {
  const auto max = static_cast<std::uint32_t>(spec.max_positions);
  const std::uint32_t wanted = options.max_model_len.value_or(max);
  if (wanted >= 2 && wanted <= max) return wanted;
  return absl::InvalidArgumentError(absl::StrCat("--max-model-len is ", wanted,
                                                 "; expected from 2 (a token of prompt and one of output) to ", max,
                                                 " (what the model was made for)"));
}

// A KV cache of whole blocks, on one rank.
struct Blocks {
  std::uint32_t tokens = 0;  // of a block
  std::uint64_t bytes = 0;   // of a block

  // Of the longest request that `memory` holds, as the engine counts it; at most `max`.
  std::uint32_t LongestIn(std::uint64_t memory, std::uint32_t max) const {
    const std::uint64_t most = std::numeric_limits<std::int32_t>::max();  // a block's number has 32 bits
    const auto count = static_cast<std::uint32_t>(std::min(memory / bytes, most));
    return LengthLimit({.limits = {.kv_block_tokens = tokens}, .max_model_len = max}, {.num_kv_blocks = {count}});
  }

  // That a request of `length` tokens takes. Nothing is computed from its last token.
  std::uint64_t BytesFor(std::uint32_t length) const { return bytes * BlocksFor(length - 1, tokens); }
};

std::uint64_t ChooseMemory(const ServerOptions& options, const Blocks& blocks, std::uint32_t length) {
  if (options.kv_cache_memory) return options.kv_cache_memory->bytes;
  return std::min(kDefaultKvCacheBytes / options.tp_degree, blocks.BytesFor(length) * options.max_num_seqs);
}

std::string MemoryInWords(const ServerOptions& options, std::uint64_t bytes) {
  return absl::StrCat(options.kv_cache_memory ? "--kv-cache-memory of " : "the default KV cache of ", bytes,
                      " bytes on each rank");
}

absl::Status LessThanABlock(const ServerOptions& options, const Blocks& blocks, std::uint64_t memory) {
  return absl::InvalidArgumentError(absl::StrCat(MemoryInWords(options, memory), " holds nothing: a block of ",
                                                 blocks.tokens, " tokens takes ", blocks.bytes,
                                                 " bytes; give at least that as --kv-cache-memory"));
}

absl::Status TooLong(const ServerOptions& options, const Blocks& blocks, std::uint64_t memory, std::uint32_t wanted,
                     std::uint32_t longest) {
  return absl::InvalidArgumentError(absl::StrCat("--max-model-len is ", wanted, ", but ",
                                                 MemoryInWords(options, memory), " holds requests of at most ", longest,
                                                 " tokens: give --kv-cache-memory ", blocks.BytesFor(wanted),
                                                 " or more, or --max-model-len ", longest, " or less"));
}

}  // namespace

absl::StatusOr<KvCacheChoice> ChooseKvCache(const sharding::Model& model, const ServerOptions& options, DType dtype,
                                            std::uint32_t kv_block_tokens) {
  ASSIGN_OR_RETURN(const std::uint32_t wanted, WantedLength(model.spec, options));
  ASSIGN_OR_RETURN(const std::uint64_t bytes_per_token, KvBytesPerToken(model, options.tp_degree, dtype));
  const Blocks blocks{.tokens = kv_block_tokens, .bytes = bytes_per_token * kv_block_tokens};
  const std::uint64_t memory = ChooseMemory(options, blocks, wanted);
  if (memory < blocks.bytes) return LessThanABlock(options, blocks, memory);
  const std::uint32_t longest = blocks.LongestIn(memory, wanted);
  if (longest < wanted && options.max_model_len) return TooLong(options, blocks, memory, wanted, longest);
  if (longest < wanted) {
    LogWarning("max_model_len is lowered to what the KV cache holds: --kv-cache-memory raises it",
               {{"max_model_len", longest}, {"model_takes", wanted}, {"kv_cache_bytes_per_rank", memory}});
  }
  return KvCacheChoice{.max_model_len = longest, .bytes_per_rank = memory};
}

}  // namespace trireme::server
