#include "client/cli/generate_flags.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/duration_message.h"

namespace trireme::client {
namespace {

// "5=-1.5": token id and what is added to its logit.
absl::Status ParseLogitBias(std::string_view text, std::map<std::uint32_t, float>* biases) {
  const std::size_t equals = std::min(text.find('='), text.size());
  std::uint32_t id = 0;
  float bias = 0;
  if (equals == text.size() || !ParseFlagValue(text.substr(0, equals), &id).ok() ||
      !ParseFlagValue(text.substr(equals + 1), &bias).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a token id and a number (such as 42=-1.5), got \"", std::string(text), "\""));
  }
  if (!biases->emplace(id, bias).second) {
    return absl::InvalidArgumentError(absl::StrCat("token ", id, " is given twice"));
  }
  return absl::OkStatus();
}

void FillSampling(const GenerateFlags& flags, v1::GenerateRequest& request) {
  if (flags.temperature) request.mutable_sampling()->set_temperature(*flags.temperature);
  if (flags.top_k) request.mutable_sampling()->set_top_k(*flags.top_k);
  if (flags.top_p) request.mutable_sampling()->set_top_p(*flags.top_p);
  if (flags.min_p) request.mutable_sampling()->set_min_p(*flags.min_p);
  if (flags.typical_p) request.mutable_sampling()->set_typical_p(*flags.typical_p);
  if (flags.repetition_penalty) request.mutable_sampling()->set_repetition_penalty(*flags.repetition_penalty);
  if (flags.presence_penalty) request.mutable_sampling()->set_presence_penalty(*flags.presence_penalty);
  if (flags.frequency_penalty) request.mutable_sampling()->set_frequency_penalty(*flags.frequency_penalty);
  for (const auto& [id, bias] : flags.logit_bias) (*request.mutable_sampling()->mutable_logit_bias())[id] = bias;
  if (flags.seed) request.mutable_sampling()->set_seed(*flags.seed);
}

void FillStopping(const GenerateFlags& flags, v1::GenerateRequest& request) {
  if (flags.max_tokens) request.mutable_stopping()->set_max_tokens(*flags.max_tokens);
  if (flags.min_tokens) request.mutable_stopping()->set_min_tokens(*flags.min_tokens);
  for (const std::string& stop : flags.stop) request.mutable_stopping()->add_stop(stop);
  for (const std::uint32_t id : flags.stop_token_ids) request.mutable_stopping()->add_stop_token_ids(id);
  if (flags.include_stop) request.mutable_stopping()->set_include_stop_str_in_output(true);
  if (flags.ignore_eos) request.mutable_stopping()->set_ignore_eos(true);
  if (const absl::Duration limit = flags.time_limit.value_or(absl::InfiniteDuration());
      limit != absl::InfiniteDuration()) {
    *request.mutable_stopping()->mutable_time_limit() = ToMessage(limit);
  }
  for (const std::string& word : flags.bad_words) request.mutable_stopping()->add_bad_words(word);
}

}  // namespace

void GenerateFlags::Declare(FlagParser& flags) {
  flags.BeginGroup("How tokens are chosen");
  flags.Add("temperature", "T", "0 takes the likeliest token each time", &temperature);
  flags.Add("top-k", "K", "choose among the K likeliest tokens; 0: among all", &top_k);
  flags.Add("top-p", "P", "choose among the likeliest tokens of this total probability", &top_p);
  flags.Add("min-p", "P", "leave out tokens with less than this share of the likeliest's probability", &min_p);
  flags.Add("typical-p", "P", "choose among the most typical tokens of this total probability", &typical_p);
  flags.Add("repetition-penalty", "X", "above 1: against tokens of prompt and output", &repetition_penalty);
  flags.Add("presence-penalty", "X", "above 0: against tokens of the output", &presence_penalty);
  flags.Add("frequency-penalty", "X", "the same, once for each time", &frequency_penalty);
  flags.AddParsed("logit-bias", "ID=X", "adds X to a token's logit; may be repeated",
                  [this](std::string_view text) { return ParseLogitBias(text, &logit_bias); });
  flags.AddRepeated("bad-word", "TEXT", "a word that is never generated", &bad_words);
  flags.Add("seed", "N", "the same seed gives the same text", &seed);
  flags.BeginGroup("When the output ends");
  flags.Add("max-tokens", "N", "tokens to generate at most", &max_tokens);
  flags.Add("min-tokens", "N", "tokens to generate before anything else may end the output", &min_tokens);
  flags.AddRepeated("stop", "TEXT", "text that ends the output", &stop);
  flags.Add("stop-token-ids", "IDS", "tokens that end the output, such as 1,2,3", &stop_token_ids);
  flags.AddSwitch("include-stop", "what stopped the output is part of the text", &include_stop);
  flags.AddSwitch("ignore-eos", "go on after the end of sequence", &ignore_eos);
  flags.Add("time-limit", "TIME", "end with what there is after this much time, such as 500ms", &time_limit);
}

void GenerateFlags::Fill(v1::GenerateRequest& request) const {
  FillSampling(*this, request);
  FillStopping(*this, request);
}

void OutputFlags::Declare(FlagParser& flags) {
  flags.BeginGroup("What is told");
  flags.Add("n", "N", "number of continuations", &n);
  flags.Add("logprobs", "K", "log-probability of each token and of the K likeliest", &logprobs);
  flags.Add("prompt-logprobs", "K", "the same for the prompt's tokens", &prompt_logprobs);
  flags.AddSwitch("echo", "the text begins with the prompt", &echo);
  flags.AddSwitch("skip-special-tokens", "leave special tokens out of the text", &skip_special_tokens);
  flags.AddSwitch("stream", "tokens as they come; --stream=false: all at the end", &stream);
  flags.BeginGroup("The request");
  flags.Add("model", "NAME", "must be the served model's", &model);
  flags.Add("request-id", "ID", "names the request in logs and for Abort", &request_id);
  flags.Add("priority", "N", "-100 to 100; higher goes first", &priority);
  flags.Add("cache-salt", "TEXT", "share cached prefixes with requests of the same salt only", &cache_salt);
}

void OutputFlags::Fill(v1::GenerateRequest& request) const {
  if (n) request.mutable_sampling()->set_n(*n);
  if (logprobs) request.mutable_output()->set_logprobs(*logprobs);
  if (prompt_logprobs) request.mutable_output()->set_prompt_logprobs(*prompt_logprobs);
  if (echo) request.mutable_output()->set_echo(true);
  if (!skip_special_tokens) request.mutable_output()->set_skip_special_tokens(false);
  if (!stream) request.set_stream(false);
  request.set_model(model);
  request.set_request_id(request_id);
  if (priority) request.set_priority(*priority);
  request.set_cache_salt(cache_salt);
}

}  // namespace trireme::client
