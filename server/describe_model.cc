#include "server/describe_model.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/cpu.h"
#include "base/logging.h"
#include "base/status_macros.h"
#include "server/service/generation_config.h"
#include "server/text/load_text.h"
#include "sharding/describe.h"

namespace trireme::server {
namespace {

using sharding::DType;

constexpr std::uint64_t kDefaultKvCacheBytes = std::uint64_t{1} << 30;

// "SmolLM2-135M" for ".../SmolLM2-135M/" and ".../SmolLM2-135M.gguf".
std::string ModelName(const std::string& model) {
  const std::filesystem::path path = std::filesystem::weakly_canonical(model);
  return path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
}

absl::StatusOr<std::uint32_t> ChooseMaxModelLen(const sharding::DecoderSpec& spec, const ServerOptions& options) {
  const auto max = static_cast<std::uint32_t>(spec.max_positions);
  const std::uint32_t chosen = options.max_model_len.value_or(max);
  if (chosen > max || chosen < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max-model-len is ", chosen, ", the model takes from 2 to ", max, " tokens"));
  }
  return chosen;
}

GgufVocabulary VocabularyOf(const sharding::GgufTokenizerMetadata& gguf) {
  return {.model = gguf.model,
          .pre = gguf.pre.value_or(""),
          .tokens = gguf.tokens,
          .token_types = gguf.token_types,
          .scores = gguf.scores,
          .merges = gguf.merges,
          .bos_token_id = gguf.bos_id,
          .eos_token_id = gguf.eos_id,
          .unknown_token_id = gguf.unk_id,
          .padding_token_id = gguf.pad_id,
          .add_bos_token = gguf.add_bos,
          .add_eos_token = gguf.add_eos,
          .add_space_prefix = gguf.add_space_prefix};
}

absl::StatusOr<TextModel> LoadText(const sharding::Checkpoint& checkpoint, const std::string& path) {
  const sharding::GgufTokenizerMetadata* gguf = checkpoint.gguf_tokenizer();
  if (gguf != nullptr) return LoadTextFromGguf(VocabularyOf(*gguf), gguf->chat_template);
  if (std::filesystem::is_directory(path)) return LoadTextFromFolder(path);
  return TextModel(nullptr, nullptr, {});
}

// Of one rank; all have the same.
absl::StatusOr<std::uint64_t> KvBytesPerToken(const sharding::Model& model, std::uint32_t tp_degree, DType dtype) {
  const int element_bytes = dtype == DType::kBF16 ? 2 : 4;
  ASSIGN_OR_RETURN(const sharding::CompiledProgram program,
                   sharding::Compile(model.program, model.plan, {.index = 0, .world = static_cast<int>(tp_degree)}));
  return sharding::Describe(program, {.weights = element_bytes, .kv_cache = element_bytes}).kv_cache_bytes_per_token;
}

}  // namespace

absl::StatusOr<ServedModel> DescribeModel(const sharding::Model& model, const ServerOptions& options, DType dtype) {
  const sharding::Checkpoint& checkpoint = *model.checkpoint;
  ServedModel served;
  served.name = ModelName(options.model);
  served.model_type = model.spec.model_type;
  served.dtype = dtype == DType::kBF16 ? "bfloat16" : "float32";
  served.vocab_size = static_cast<std::uint32_t>(model.spec.vocabulary);
  ASSIGN_OR_RETURN(served.max_model_len, ChooseMaxModelLen(model.spec, options));
  const GenerationConfig config{.generation_config = checkpoint.generation_config(), .config = checkpoint.config()};
  ASSIGN_OR_RETURN(served.eos_token_ids, config.EosTokenIds());
  ASSIGN_OR_RETURN(served.bos_token_id, config.BosTokenId());
  ASSIGN_OR_RETURN(served.pad_token_id, config.PadTokenId());
  ASSIGN_OR_RETURN(served.sampling, config.ReadSamplingDefaults());
  for (const std::string& setting : config.UnservedSettings()) {
    LogWarning("generation_config asks for what is not served", {{"setting", setting}});
  }
  served.supports_tp_plan = model.family_has_plan;
  served.valid_tp_degrees = model.valid_tp_degrees;
  ASSIGN_OR_RETURN(served.text, LoadText(checkpoint, options.model));
  return served;
}

DType ChooseDType(DTypeChoice choice) {
  switch (choice) {
    case DTypeChoice::kFloat32:
      return DType::kF32;
    case DTypeChoice::kBFloat16:
      return DType::kBF16;
    case DTypeChoice::kAuto:
      return PrefersBfloat16() ? DType::kBF16 : DType::kF32;
  }
  return DType::kF32;
}

absl::StatusOr<std::uint64_t> ChooseKvCacheBytes(const sharding::Model& model, const ServerOptions& options,
                                                 DType dtype, std::uint32_t max_model_len,
                                                 std::uint32_t kv_block_tokens) {
  if (options.kv_cache_memory) return options.kv_cache_memory->bytes;
  const std::uint64_t tokens_per_request = (max_model_len + kv_block_tokens - 1) / kv_block_tokens * kv_block_tokens;
  ASSIGN_OR_RETURN(const std::uint64_t bytes_per_token, KvBytesPerToken(model, options.tp_degree, dtype));
  const std::uint64_t enough = bytes_per_token * tokens_per_request * options.max_num_seqs;
  return std::min(kDefaultKvCacheBytes / options.tp_degree, enough);
}

}  // namespace trireme::server
