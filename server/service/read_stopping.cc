#include "server/service/read_stopping.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/duration_message.h"
#include "base/status_macros.h"
#include "server/service/prompt.h"
#include "server/text/bad_words.h"

namespace trireme::server {
namespace {

using Strings = google::protobuf::RepeatedPtrField<std::string>;

// At most this many, each of 1 to so many bytes.
struct StringLimits {
  std::uint32_t max_count = 0;
  std::uint32_t max_bytes = 0;
};

void CheckStrings(const std::string& field, const Strings& strings, StringLimits limits, Violations& violations) {
  if (strings.size() > static_cast<int>(limits.max_count)) {
    violations.Add(field, absl::StrCat("has ", strings.size(), " strings, at most ", limits.max_count, " are taken"));
    return;
  }
  for (int i = 0; i < strings.size(); ++i) {
    const std::string element = absl::StrCat(field, "[", i, "]");
    if (strings[i].empty()) violations.Add(element, "is empty");
    CheckBytes(element, strings[i], limits.max_bytes, violations);
  }
}

void CheckNumTokens(const v1::StoppingParams& params, Violations& violations) {
  if (!params.has_max_tokens()) return;
  if (params.max_tokens() == 0) violations.Add("stopping.max_tokens", "is 0, must be at least 1");
  if (params.min_tokens() > params.max_tokens()) {
    violations.Add("stopping.min_tokens",
                   absl::StrCat("is ", params.min_tokens(), ", more than max_tokens, which is ", params.max_tokens()));
  }
}

std::set<std::uint32_t> ReadStopTokens(const ServedModel& model, const ServiceLimits& limits,
                                       const v1::StoppingParams& params, Violations& violations) {
  const auto& ids = params.stop_token_ids();
  if (!CheckCount("stopping.stop_token_ids", ids.size(), limits.max_stop_token_ids, violations)) return {};
  CheckTokenIds(model, "stopping.stop_token_ids", ids, violations);
  return {ids.begin(), ids.end()};
}

// As google/protobuf/duration.proto defines it.
bool IsDuration(const google::protobuf::Duration& duration) {
  constexpr std::int64_t kMaxSeconds = 315'576'000'000;
  return duration.seconds() >= -kMaxSeconds && duration.seconds() <= kMaxSeconds && duration.nanos() > -1'000'000'000 &&
         duration.nanos() < 1'000'000'000 && (duration.seconds() <= 0 || duration.nanos() >= 0) &&
         (duration.seconds() >= 0 || duration.nanos() <= 0);
}

}  // namespace

StoppingParams ReadStopping(const ServedModel& model, const ServiceLimits& limits, const v1::StoppingParams& params,
                            Violations& violations) {
  CheckNumTokens(params, violations);
  StoppingParams result;
  result.stop_token_ids = ReadStopTokens(model, limits, params, violations);
  CheckStrings("stopping.stop", params.stop(),
               {.max_count = limits.max_stop_strings, .max_bytes = limits.max_stop_string_bytes}, violations);
  CheckStrings("stopping.bad_words", params.bad_words(),
               {.max_count = limits.max_bad_words, .max_bytes = limits.max_bad_word_bytes}, violations);
  result.max_tokens = params.has_max_tokens() ? params.max_tokens() : model.max_model_len;
  result.min_tokens = params.min_tokens();
  if (!params.ignore_eos()) result.eos_token_ids = model.eos_token_ids;
  return result;
}

absl::Duration ReadTimeLimit(const v1::StoppingParams& params, Violations& violations) {
  if (!params.has_time_limit()) return absl::InfiniteDuration();
  const google::protobuf::Duration& proto = params.time_limit();
  const std::string got = absl::StrCat("is ", proto.seconds(), " s and ", proto.nanos(), " ns, ");
  const absl::Duration duration = DurationFrom(proto);
  if (!IsDuration(proto)) {
    violations.Add("stopping.time_limit", got + "which is no google.protobuf.Duration");
  } else if (duration <= absl::ZeroDuration()) {
    violations.Add("stopping.time_limit", got + "must be above 0");
  }
  return duration;
}

std::shared_ptr<const StopStrings> ReadStopStrings(const v1::StoppingParams& params) {
  if (params.stop().empty()) return nullptr;
  return std::make_shared<const StopStrings>(std::vector<std::string>(params.stop().begin(), params.stop().end()));
}

absl::StatusOr<std::vector<std::vector<std::uint32_t>>> ReadBadWords(const ServedModel& model,
                                                                     const v1::StoppingParams& params) {
  std::vector<std::vector<std::uint32_t>> result;
  Violations violations;
  for (int i = 0; i < params.bad_words_size(); ++i) {
    auto sequences = BadWordTokens(*model.text.tokenizer(), params.bad_words(i));
    if (!sequences.ok()) {
      violations.Add(absl::StrCat("stopping.bad_words[", i, "]"), std::string(sequences.status().message()));
      continue;
    }
    for (std::vector<std::uint32_t>& sequence : *sequences) {
      // Tokens that the model has no row for are never chosen: nothing to forbid.
      const bool is_possible =
          std::all_of(sequence.begin(), sequence.end(), [&](std::uint32_t id) { return id < model.vocab_size; });
      if (is_possible) result.push_back(std::move(sequence));
    }
  }
  RETURN_IF_ERROR(violations.ToStatus(absl::StatusCode::kInvalidArgument, "INVALID_REQUEST"));
  return result;
}

}  // namespace trireme::server
