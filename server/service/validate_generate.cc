#include "server/service/validate_generate.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "server/service/prompt.h"
#include "server/service/status_details.h"
#include "server/service/unserved_fields.h"

namespace trireme::server {
namespace {

std::uint64_t RandomNumber() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

void CheckInputKind(const v1::GenerateRequest& request, Violations& violations) {
  if (request.input_case() == v1::GenerateRequest::INPUT_NOT_SET) {
    violations.Add("input", "is missing: give one of text, token_ids, chat");
  }
  CheckAddSpecialTokens(request, violations);
}

std::string ReadRequestId(const ServiceLimits& limits, const std::string& id, Violations& violations) {
  if (id.size() > limits.max_request_id_bytes) {
    violations.Add("request_id",
                   absl::StrCat("has ", id.size(), " bytes, at most ", limits.max_request_id_bytes, " are taken"));
  }
  return id.empty() ? absl::StrFormat("generate-%016x", RandomNumber()) : id;
}

float ReadTemperature(float value, Violations& violations) {
  if (!IsTemperature(value)) {
    violations.Add("sampling.temperature",
                   absl::StrCat("is ", value, ", must be 0, or from ", kMinTemperature, " to ", kMaxTemperature));
  }
  return value;
}

float ReadTopP(float value, Violations& violations) {
  const bool is_valid = value > 0 && value <= 1;
  if (!is_valid) violations.Add("sampling.top_p", absl::StrCat("is ", value, ", must be above 0 and at most 1"));
  return value;
}

SamplingParams ReadSampling(const SamplingDefaults& defaults, const v1::SamplingParams& params,
                            Violations& violations) {
  SamplingParams result;
  result.temperature =
      params.has_temperature() ? ReadTemperature(params.temperature(), violations) : defaults.temperature;
  result.top_k = params.has_top_k() ? params.top_k() : defaults.top_k;
  result.top_p = params.has_top_p() ? ReadTopP(params.top_p(), violations) : defaults.top_p;
  result.seed = params.has_seed() ? params.seed() : RandomNumber();
  return result;
}

std::optional<std::uint32_t> ReadLogprobs(const ServiceLimits& limits, const v1::OutputOptions& options,
                                          Violations& violations) {
  if (!options.has_logprobs()) return std::nullopt;
  if (options.logprobs() > limits.max_logprobs) {
    violations.Add("output.logprobs", absl::StrCat("is ", options.logprobs(), ", at most ", limits.max_logprobs));
  }
  return options.logprobs();
}

StoppingParams ReadStopping(const ServedModel& model, const ServiceLimits& limits, const v1::StoppingParams& params,
                            Violations& violations) {
  if (params.has_max_tokens() && params.max_tokens() == 0) {
    violations.Add("stopping.max_tokens", "is 0, must be at least 1");
  }
  if (params.stop_token_ids().size() > static_cast<int>(limits.max_stop_token_ids)) {
    violations.Add("stopping.stop_token_ids", absl::StrCat("has ", params.stop_token_ids().size(), " ids, at most ",
                                                           limits.max_stop_token_ids, " are taken"));
  }
  CheckTokenIds(model, "stopping.stop_token_ids", params.stop_token_ids(), violations);
  StoppingParams result;
  result.max_tokens = params.has_max_tokens() ? params.max_tokens() : model.max_model_len;
  result.stop_token_ids = {params.stop_token_ids().begin(), params.stop_token_ids().end()};
  if (!params.ignore_eos()) result.eos_token_ids = model.eos_token_ids;
  return result;
}

// The input's name in the proto.
std::string InputField(const v1::GenerateRequest& request) {
  if (request.has_text()) return "text";
  return request.has_chat() ? "chat" : "token_ids";
}

// Neither empty nor too long for one more token.
void CheckPromptLength(const ServedModel& model, const std::string& field, std::size_t num_tokens,
                       Violations& violations) {
  if (num_tokens == 0) violations.Add(field, "has no tokens");
  if (num_tokens >= model.max_model_len) {
    violations.Add(field, absl::StrCat("has ", num_tokens, " tokens, but the context holds ", model.max_model_len,
                                       " for prompt and output"));
  }
}

std::vector<std::uint32_t> ReadTokenIds(const ServedModel& model, const v1::TokenIds& input, Violations& violations) {
  CheckPromptLength(model, "token_ids", static_cast<std::size_t>(input.ids_size()), violations);
  CheckTokenIds(model, "token_ids.ids", input.ids(), violations);
  return {input.ids().begin(), input.ids().end()};
}

absl::StatusOr<std::vector<std::uint32_t>> Encode(const ServedModel& model, const v1::GenerateRequest& request,
                                                  std::string_view text) {
  RETURN_IF_ERROR(RequireTokenizer(model));
  ASSIGN_OR_RETURN(std::vector<std::uint32_t> ids, model.text.tokenizer()->EncodeIds(text, AddsSpecialTokens(request)));
  Violations violations;
  const std::string field = InputField(request);
  CheckPromptLength(model, field, ids.size(), violations);
  const auto beyond = std::find_if(ids.begin(), ids.end(), [&](std::uint32_t id) { return id >= model.vocab_size; });
  if (beyond != ids.end()) {
    violations.Add(field,
                   absl::StrCat("has a token of id ", *beyond, ", but the model knows ids below ", model.vocab_size));
  }
  RETURN_IF_ERROR(violations.ToStatus(absl::StatusCode::kInvalidArgument, "INVALID_PROMPT"));
  return ids;
}

// What Encode leaves to do for text and chat, after everything else was found right.
absl::StatusOr<std::vector<std::uint32_t>> EncodePrompt(const ServedModel& model, const ServiceLimits& limits,
                                                        const v1::GenerateRequest& request, const Chat& chat) {
  if (request.has_text()) return Encode(model, request, request.text());
  ASSIGN_OR_RETURN(const std::string rendered, RenderChat(model, limits, chat));
  return Encode(model, request, rendered);
}

}  // namespace

absl::StatusOr<ValidatedGenerate> ValidateGenerate(const ServedModel& model, const ServiceLimits& limits,
                                                   const v1::GenerateRequest& request) {
  RETURN_IF_ERROR(CheckModelName(model, request.model()));
  Violations violations;
  ValidatedGenerate result;
  CheckInputKind(request, violations);
  result.request.id = ReadRequestId(limits, request.request_id(), violations);
  result.request.sampling = ReadSampling(model.sampling, request.sampling(), violations);
  result.request.sampling.logprobs = ReadLogprobs(limits, request.output(), violations);
  result.request.stopping = ReadStopping(model, limits, request.stopping(), violations);
  Chat chat;
  if (request.has_token_ids()) result.request.prompt = ReadTokenIds(model, request.token_ids(), violations);
  if (request.has_text()) CheckText(limits, request.text(), violations);
  if (request.has_chat()) chat = ReadChat(limits, request.chat(), violations);
  RETURN_IF_ERROR(violations.ToStatus(absl::StatusCode::kInvalidArgument, "INVALID_REQUEST"));
  RETURN_IF_ERROR(RefuseUnservedFields(request));

  if (!request.has_token_ids()) {
    ASSIGN_OR_RETURN(result.request.prompt, EncodePrompt(model, limits, request, chat));
  }
  const auto room = model.max_model_len - static_cast<std::uint32_t>(result.request.prompt.size());
  result.request.stopping.max_tokens = std::min(result.request.stopping.max_tokens, room);
  if (request.has_stream()) result.stream = request.stream();
  if (request.output().has_skip_special_tokens()) {
    result.skip_special_tokens = request.output().skip_special_tokens();
  }
  return result;
}

}  // namespace trireme::server
