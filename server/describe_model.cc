#include "server/describe_model.h"

#include <filesystem>
#include <string>
#include <utility>

#include "base/cpu.h"
#include "base/logging.h"
#include "base/status_macros.h"
#include "server/service/generation_config.h"
#include "server/text/load_text.h"

namespace trireme::server {
namespace {

using sharding::DType;

// "SmolLM2-135M" for ".../SmolLM2-135M/" and ".../SmolLM2-135M.gguf".
std::string ModelName(const std::string& model) {
  const std::filesystem::path path = std::filesystem::weakly_canonical(model);
  return path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
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

}  // namespace

absl::StatusOr<ServedModel> DescribeModel(const sharding::Model& model, const std::string& path, DType dtype,
                                          std::uint32_t max_model_len) {
  const sharding::Checkpoint& checkpoint = *model.checkpoint;
  ServedModel served;
  served.name = ModelName(path);
  served.model_type = model.spec.model_type;
  served.dtype = dtype == DType::kBF16 ? "bfloat16" : "float32";
  served.vocab_size = static_cast<std::uint32_t>(model.spec.vocabulary);
  served.max_model_len = max_model_len;
  const GenerationConfig config{.generation_config = checkpoint.generation_config(),
                                .config = checkpoint.config(),
                                .vocab_size = served.vocab_size};
  ASSIGN_OR_RETURN(served.eos_token_ids, config.EosTokenIds());
  ASSIGN_OR_RETURN(served.bos_token_id, config.BosTokenId());
  ASSIGN_OR_RETURN(served.pad_token_id, config.PadTokenId());
  ASSIGN_OR_RETURN(served.sampling, config.ReadSamplingDefaults());
  for (const std::string& setting : config.UnservedSettings()) {
    LogWarning("generation_config asks for what is not served", {{"setting", setting}});
  }
  served.supports_tp_plan = model.family_has_plan;
  served.valid_tp_degrees = model.valid_tp_degrees;
  ASSIGN_OR_RETURN(served.text, LoadText(checkpoint, path));
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

}  // namespace trireme::server
