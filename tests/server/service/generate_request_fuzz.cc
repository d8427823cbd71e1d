// Bytes from the wire → request → validation → the output of a few tokens.
#include <string>
#include <string_view>

#include "base/check.h"
#include "server/service/generation_output.h"
#include "server/service/status_details.h"
#include "server/service/validate_generate.h"
#include "server/service/wire.h"
#include "server/text/utf8_stream.h"
#include "tests/server/service/test_model.h"
#include "tests/support/fuzz_target.h"

namespace trireme::server {
namespace {

void CheckRefusal(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
      break;
    default:
      CHECK(false) << " " << status.ToString();
  }
  CHECK(!status.message().empty());
  const grpc::Status for_client = ToGrpcStatus(status, absl::Seconds(1));
  CHECK_LT(for_client.error_message().size() + for_client.error_details().size(), 8u << 10);
}

bool IsWithin(float value, float min, float max) { return value >= min && value <= max; }

// What the engine relies on.
void CheckRequest(const ServedModel& model, const Request& request) {
  CHECK(!request.id.empty() && !request.prompt.empty());
  CHECK_LT(request.prompt.size(), model.max_model_len);
  for (const std::uint32_t id : request.prompt) CHECK_LT(id, model.vocab_size);
  CHECK_GT(request.stopping.max_tokens, 0u);
  CHECK_LE(request.stopping.min_tokens, request.stopping.max_tokens);
  CHECK_LE(request.prompt.size() + request.stopping.max_tokens, model.max_model_len);
  CHECK_GT(request.n, 0u);
  CHECK(request.time_limit > absl::ZeroDuration());
  const SamplingParams& sampling = request.sampling;
  CHECK(IsWithin(sampling.temperature, 0, 100) && IsWithin(sampling.repetition_penalty, 0.01f, 100));
  CHECK(IsWithin(sampling.top_p, 0, 1) && IsWithin(sampling.min_p, 0, 1) && IsWithin(sampling.typical_p, 0, 1));
  CHECK(IsWithin(sampling.presence_penalty, -2, 2) && IsWithin(sampling.frequency_penalty, -2, 2));
  for (const auto& [id, bias] : sampling.logit_bias) CHECK(id < model.vocab_size && IsWithin(bias, -100, 100));
  for (const auto& word : sampling.bad_words) CHECK(!word.empty());
}

void CheckOutput(const OutputPlan& plan) {
  GenerationOutput output(plan);
  for (std::uint32_t index = 0; index < plan.n; ++index) {
    for (const std::uint32_t id : {64u, 127u, 507u, 65u}) {
      const GeneratedToken token{.token_id = id, .logprob = std::nullopt};
      if (output.Add(index, {&token, 1}) == AfterTokens::kStop) break;
    }
    output.End(index, {.reason = FinishReason::kLength, .matched_stop_token_id = std::nullopt, .timings = {}});
  }
  std::vector<std::string> texts(plan.n);
  while (output.has_delta()) {
    const v1::Chunk chunk = output.TakeChunk().chunk();
    texts[chunk.index()] += chunk.text();
  }
  const v1::Complete complete = output.TakeComplete().complete();
  for (const v1::Completion& completion : complete.completions()) {
    CHECK(IsUtf8(completion.text()));
    if (plan.is_stream) CHECK(completion.text() == texts[completion.index()]);
  }
}

void Exercise(std::string_view wire) {
  static const ServedModel* const model = new ServedModel(TextTestModel());
  v1::GenerateRequest request;
  if (const absl::Status parsed = ParseRequest(wire, request); !parsed.ok()) return CheckRefusal(parsed);
  if (request.request_id().empty()) request.set_request_id(MakeRequestId());
  const absl::StatusOr<ValidatedGenerate> validated = ValidateGenerate(*model, ServiceLimits(), request);
  if (!validated.ok()) return CheckRefusal(validated.status());
  CheckRequest(*model, validated->request);
  CheckOutput(validated->output);
}

}  // namespace
}  // namespace trireme::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::server::Exercise({reinterpret_cast<const char*>(data), size});
  return 0;
}
