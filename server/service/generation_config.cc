#include "server/service/generation_config.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/service/limits.h"

namespace trireme::server {
namespace {

using nlohmann::json;

constexpr char kGenerationConfig[] = "generation_config";

absl::Status Malformed(const char* file, const char* key, const json& value, const std::string& expected) {
  return absl::InvalidArgumentError(absl::StrCat(file, ": ", key, " is ", value.dump(), ", expected ", expected));
}

// Null if the key is absent or null.
const json* Find(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

absl::StatusOr<double> ReadNumber(const json& object, const char* key, double otherwise, double max) {
  const json* value = Find(object, key);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) return Malformed(kGenerationConfig, key, *value, "a number");
  const double number = value->get<double>();
  if (!std::isfinite(number) || number > max)
    return Malformed(kGenerationConfig, key, *value, absl::StrCat("at most ", max));
  return number;
}

absl::StatusOr<float> ReadInRange(const json& object, const char* key, float otherwise, float min, float max) {
  ASSIGN_OR_RETURN(const double number, ReadNumber(object, key, otherwise, max));
  if (number < min) return Malformed(kGenerationConfig, key, object[key], absl::StrCat("from ", min, " to ", max));
  return static_cast<float>(number);
}

// Like ReadInRange, of a share that is above 0.
absl::StatusOr<float> ReadShare(const json& object, const char* key) {
  ASSIGN_OR_RETURN(const double share, ReadNumber(object, key, 1, 1));
  if (share <= 0) return Malformed(kGenerationConfig, key, object[key], "more than 0");
  return static_cast<float>(share);
}

// Where ids may be, and what they must be below.
struct IdSource {
  const char* file;
  const json& object;
  std::uint64_t bound;
};

absl::StatusOr<std::set<std::uint32_t>> ReadIds(const IdSource& source, const char* key) {
  std::set<std::uint32_t> ids;
  const json* value = Find(source.object, key);
  if (value == nullptr) return ids;
  for (const json& id : value->is_array() ? *value : json::array({*value})) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= source.bound) {
      return Malformed(source.file, key, *value, absl::StrCat("token ids below ", source.bound));
    }
    ids.insert(id.get<std::uint32_t>());
  }
  return ids;
}

absl::StatusOr<std::set<std::uint32_t>> ReadIdsOfEither(const GenerationConfig& configs, const char* key,
                                                        std::uint64_t bound) {
  ASSIGN_OR_RETURN(std::set<std::uint32_t> ids, ReadIds({kGenerationConfig, configs.generation_config, bound}, key));
  if (!ids.empty()) return ids;
  return ReadIds({"config", configs.config, bound}, key);
}

absl::StatusOr<std::optional<std::uint32_t>> ReadId(const GenerationConfig& configs, const char* key,
                                                    std::uint64_t bound) {
  ASSIGN_OR_RETURN(const std::set<std::uint32_t> ids, ReadIdsOfEither(configs, key, bound));
  return ids.empty() ? std::nullopt : std::optional(*ids.begin());
}

absl::StatusOr<float> ReadTemperature(const json& object) {
  ASSIGN_OR_RETURN(const double temperature, ReadNumber(object, "temperature", 1, kMaxTemperature));
  if (!IsTemperature(static_cast<float>(temperature))) {
    return Malformed(kGenerationConfig, "temperature", object["temperature"],
                     absl::StrCat("0, or at least ", kMinTemperature));
  }
  const json* do_sample = Find(object, "do_sample");
  if (do_sample != nullptr && !do_sample->is_boolean()) {
    return Malformed(kGenerationConfig, "do_sample", *do_sample, "true or false");
  }
  const bool is_greedy = do_sample != nullptr && !do_sample->get<bool>();
  return is_greedy ? 0.0f : static_cast<float>(temperature);
}

// A setting and the value at which it does nothing.
struct Unserved {
  const char* key;
  json neutral;
};

}  // namespace

absl::StatusOr<SamplingDefaults> GenerationConfig::ReadSamplingDefaults() const {
  ASSIGN_OR_RETURN(const float temperature, ReadTemperature(generation_config));
  ASSIGN_OR_RETURN(const double top_k, ReadNumber(generation_config, "top_k", 0, UINT32_MAX));
  SamplingDefaults defaults{.temperature = temperature, .top_k = top_k >= 1 ? static_cast<std::uint32_t>(top_k) : 0};
  ASSIGN_OR_RETURN(defaults.top_p, ReadShare(generation_config, "top_p"));
  ASSIGN_OR_RETURN(defaults.min_p, ReadInRange(generation_config, "min_p", 0, 0, 1));
  ASSIGN_OR_RETURN(defaults.typical_p, ReadShare(generation_config, "typical_p"));
  ASSIGN_OR_RETURN(defaults.repetition_penalty, ReadInRange(generation_config, "repetition_penalty", 1,
                                                            kMinRepetitionPenalty, kMaxRepetitionPenalty));
  return defaults;
}

std::vector<std::string> GenerationConfig::UnservedSettings() const {
  static const std::vector<Unserved>* const kUnserved = new std::vector<Unserved>{
      {"no_repeat_ngram_size", 0},     {"suppress_tokens", json()},     {"begin_suppress_tokens", json()},
      {"forced_bos_token_id", json()}, {"forced_eos_token_id", json()}, {"num_beams", 1}};
  std::vector<std::string> settings;
  for (const auto& [key, neutral] : *kUnserved) {
    const json* value = Find(generation_config, key);
    if (value != nullptr && *value != neutral) settings.push_back(absl::StrCat(key, ": ", value->dump()));
  }
  return settings;
}

absl::StatusOr<std::set<std::uint32_t>> GenerationConfig::EosTokenIds() const {
  return ReadIdsOfEither(*this, "eos_token_id", vocab_size);
}

absl::StatusOr<std::optional<std::uint32_t>> GenerationConfig::BosTokenId() const {
  return ReadId(*this, "bos_token_id", vocab_size);
}

absl::StatusOr<std::optional<std::uint32_t>> GenerationConfig::PadTokenId() const {
  return ReadId(*this, "pad_token_id", std::uint64_t{1} << 32);
}

}  // namespace trireme::server
