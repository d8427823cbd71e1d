#include "worker/sampling_settings.h"

#include <cmath>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace trireme::worker {
namespace {

// `wanted` completes "it must be ...".
template <typename T>
absl::Status Expect(bool is_right, std::string_view field, T value, std::string_view wanted) {
  if (is_right) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(field), " is ", value, "; it must be ", std::string(wanted)));
}

absl::Status CheckPenalties(const v1::Sampling& s) {
  RETURN_IF_ERROR(Expect(std::isfinite(s.repetition_penalty()) && s.repetition_penalty() > 0, "repetition_penalty",
                         s.repetition_penalty(), "finite and above 0"));
  RETURN_IF_ERROR(Expect(std::isfinite(s.frequency_penalty()), "frequency_penalty", s.frequency_penalty(), "finite"));
  return Expect(std::isfinite(s.presence_penalty()), "presence_penalty", s.presence_penalty(), "finite");
}

absl::Status CheckFilters(const v1::Sampling& s) {
  RETURN_IF_ERROR(Expect(std::isfinite(s.temperature()) && s.temperature() >= 0, "temperature", s.temperature(),
                         "finite and at least 0"));
  RETURN_IF_ERROR(Expect(s.top_p() > 0 && s.top_p() <= 1, "top_p", s.top_p(), "in (0, 1]"));
  RETURN_IF_ERROR(Expect(s.min_p() >= 0 && s.min_p() <= 1, "min_p", s.min_p(), "in [0, 1]"));
  return Expect(s.typical_p() > 0 && s.typical_p() <= 1, "typical_p", s.typical_p(), "in (0, 1]");
}

absl::Status CheckLogprobs(const v1::Sampling& s) {
  const std::string wanted = absl::StrCat("at most ", kMaxLogprobs);
  RETURN_IF_ERROR(Expect(s.logprobs() <= kMaxLogprobs, "logprobs", s.logprobs(), wanted));
  return Expect(s.prompt_logprobs() <= kMaxLogprobs, "prompt_logprobs", s.prompt_logprobs(), wanted);
}

absl::StatusOr<std::int32_t> TokenIdFrom(std::string_view field, std::uint32_t id, std::int64_t vocabulary) {
  RETURN_IF_ERROR(Expect(id < vocabulary, absl::StrCat("a token id of ", std::string(field)), id,
                         absl::StrCat("below the vocabulary of ", vocabulary)));
  return static_cast<std::int32_t>(id);
}

absl::StatusOr<std::vector<LogitBias>> BiasesFrom(const v1::Sampling& sampling, std::int64_t vocabulary) {
  std::vector<LogitBias> biases;
  for (const auto& [id, bias] : sampling.logit_bias()) {
    ASSIGN_OR_RETURN(const std::int32_t checked_id, TokenIdFrom("logit_bias", id, vocabulary));
    RETURN_IF_ERROR(Expect(std::isfinite(bias), absl::StrCat("logit_bias of token id ", id), bias, "finite"));
    biases.push_back({checked_id, bias});
  }
  return biases;
}

absl::StatusOr<std::vector<std::vector<std::int32_t>>> BadWordsFrom(const v1::Sampling& sampling,
                                                                    std::int64_t vocabulary) {
  std::vector<std::vector<std::int32_t>> words;
  for (const v1::TokenSequence& word : sampling.bad_words()) {
    RETURN_IF_ERROR(Expect(word.ids_size() > 0, "the length of a sequence of bad_words", 0, "at least 1"));
    std::vector<std::int32_t>& ids = words.emplace_back();
    for (const std::uint32_t id : word.ids()) {
      ASSIGN_OR_RETURN(ids.emplace_back(), TokenIdFrom("bad_words", id, vocabulary));
    }
  }
  return words;
}

std::vector<std::int32_t> EndingIdsFrom(const v1::Sampling& sampling, std::int64_t vocabulary) {
  std::vector<std::int32_t> ids;
  for (const std::uint32_t id : sampling.ending_token_ids()) {
    if (id < vocabulary) ids.push_back(static_cast<std::int32_t>(id));  // others are never chosen
  }
  return ids;
}

}  // namespace

absl::StatusOr<SamplingSettings> SamplingSettingsFrom(const v1::Sampling& sampling, std::int64_t vocabulary) {
  RETURN_IF_ERROR(CheckPenalties(sampling));
  RETURN_IF_ERROR(CheckFilters(sampling));
  RETURN_IF_ERROR(CheckLogprobs(sampling));
  SamplingSettings settings = {.repetition_penalty = sampling.repetition_penalty(),
                               .frequency_penalty = sampling.frequency_penalty(),
                               .presence_penalty = sampling.presence_penalty(),
                               .min_tokens = sampling.min_tokens(),
                               .ending_token_ids = EndingIdsFrom(sampling, vocabulary),
                               .temperature = sampling.temperature(),
                               .top_k = sampling.top_k(),
                               .top_p = sampling.top_p(),
                               .min_p = sampling.min_p(),
                               .typical_p = sampling.typical_p(),
                               .seed = sampling.seed(),
                               .sample = sampling.sample()};
  ASSIGN_OR_RETURN(settings.logit_bias, BiasesFrom(sampling, vocabulary));
  ASSIGN_OR_RETURN(settings.bad_words, BadWordsFrom(sampling, vocabulary));
  if (sampling.has_logprobs()) settings.num_logprobs = sampling.logprobs();
  if (sampling.has_prompt_logprobs()) settings.num_prompt_logprobs = sampling.prompt_logprobs();
  return settings;
}

}  // namespace trireme::worker
