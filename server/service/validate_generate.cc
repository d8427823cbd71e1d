#include "server/service/validate_generate.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "server/service/generate_prompt.h"
#include "server/service/prompt.h"
#include "server/service/read_sampling.h"
#include "server/service/read_stopping.h"
#include "server/service/status_details.h"
#include "server/service/unserved_fields.h"

namespace trireme::server {
namespace {

int ReadPriority(int priority, Violations& violations) {
  if (priority < -kMaxPriority || priority > kMaxPriority) {
    violations.Add("priority", absl::StrCat("is ", priority, ", must be from ", -kMaxPriority, " to ", kMaxPriority));
  }
  return priority;
}

std::uint32_t ReadN(const ServiceLimits& limits, const v1::SamplingParams& params, Violations& violations) {
  if (!params.has_n()) return 1;
  if (params.n() < 1 || params.n() > limits.max_n) {
    violations.Add("sampling.n", absl::StrCat("is ", params.n(), ", must be from 1 to ", limits.max_n));
  }
  return params.n();
}

// What can be told without looking at the prompt.
Request ReadRequest(const ServedModel& model, const ServiceLimits& limits, const v1::GenerateRequest& request,
                    Violations& violations) {
  CheckBytes("request_id", request.request_id(), limits.max_request_id_bytes, violations);
  CheckBytes("cache_salt", request.cache_salt(), limits.max_cache_salt_bytes, violations);
  Request result;
  result.id = request.request_id();
  result.sampling = ReadSampling(model, limits, request, violations);
  result.stopping = ReadStopping(model, limits, request.stopping(), violations);
  result.n = ReadN(limits, request.sampling(), violations);
  result.priority = ReadPriority(request.priority(), violations);
  result.cache_salt = request.cache_salt();
  result.time_limit = ReadTimeLimit(request.stopping(), violations);
  return result;
}

// FAILED_PRECONDITION names the fields that are about text, if there is none.
absl::Status CheckTextFields(const ServedModel& model, const v1::GenerateRequest& request) {
  if (model.text.tokenizer() != nullptr) return absl::OkStatus();
  Violations violations;
  const std::string why = absl::StrCat("is about text, but the checkpoint of ", model.name, " has no tokenizer");
  if (!request.stopping().stop().empty()) violations.Add("stopping.stop", why);
  if (!request.stopping().bad_words().empty()) violations.Add("stopping.bad_words", why);
  if (request.output().echo()) violations.Add("output.echo", why);
  return violations.ToStatus(absl::StatusCode::kFailedPrecondition, "NO_TOKENIZER");
}

// What is left of the context after the prompt bounds the output.
void BoundOutput(const ServedModel& model, Request& request) {
  const auto room = model.max_model_len - static_cast<std::uint32_t>(request.prompt.size());
  request.stopping.max_tokens = std::min(request.stopping.max_tokens, room);
  request.stopping.min_tokens = std::min(request.stopping.min_tokens, request.stopping.max_tokens);
}

OutputPlan PlanOutput(const ServedModel& model, const v1::GenerateRequest& request, const Request& validated,
                      std::optional<std::string> echo) {
  OutputPlan plan;
  plan.request_id = validated.id;
  plan.num_prompt_tokens = static_cast<std::uint32_t>(validated.prompt.size());
  plan.seed = validated.sampling.seed;
  plan.n = validated.n;
  if (request.has_stream()) plan.is_stream = request.stream();
  if (request.output().has_skip_special_tokens()) plan.skip_special_tokens = request.output().skip_special_tokens();
  plan.stop_token_ids = validated.stopping.stop_token_ids;
  plan.stop_strings = ReadStopStrings(request.stopping());
  plan.min_tokens = validated.stopping.min_tokens;
  plan.includes_stop = request.stopping().include_stop_str_in_output();
  plan.echo = std::move(echo);
  plan.tokenizer = model.text.tokenizer();
  return plan;
}

}  // namespace

std::string MakeRequestId() { return absl::StrFormat("generate-%016x", RandomNumber()); }

absl::StatusOr<ValidatedGenerate> ValidateGenerate(const ServedModel& model, const ServiceLimits& limits,
                                                   const v1::GenerateRequest& request) {
  RETURN_IF_ERROR(CheckModelName(model, request.model()));
  Violations violations;
  ValidatedGenerate result;
  const Chat chat = CheckPrompt(model, limits, request, violations);
  result.request = ReadRequest(model, limits, request, violations);
  RETURN_IF_ERROR(violations.ToStatus(absl::StatusCode::kInvalidArgument, "INVALID_REQUEST"));
  RETURN_IF_ERROR(RefuseUnservedFields(request));
  RETURN_IF_ERROR(CheckTextFields(model, request));

  ASSIGN_OR_RETURN(GeneratePrompt prompt, EncodePrompt(model, limits, request, chat));
  result.request.prompt = std::move(prompt.ids);
  ASSIGN_OR_RETURN(result.request.sampling.bad_words, ReadBadWords(model, request.stopping()));
  BoundOutput(model, result.request);
  result.output = PlanOutput(model, request, result.request, std::move(prompt.echo));
  return result;
}

}  // namespace trireme::server
