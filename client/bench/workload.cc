#include "client/bench/workload.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace trireme::client {
namespace {

std::vector<std::uint32_t> SpecialIds(const v1::GetModelInfoResponse& model) {
  std::vector<std::uint32_t> ids(model.eos_token_ids().begin(), model.eos_token_ids().end());
  if (model.has_bos_token_id()) ids.push_back(model.bos_token_id());
  if (model.has_pad_token_id()) ids.push_back(model.pad_token_id());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  ids.erase(std::lower_bound(ids.begin(), ids.end(), model.vocab_size()), ids.end());
  return ids;
}

absl::Status CheckLengths(const WorkloadOptions& options, std::uint32_t max_model_len) {
  if (!options.prompts.empty()) return absl::OkStatus();  // how many tokens a text has, the server tells
  const std::uint64_t longest = std::uint64_t{options.input_len.max} + options.output_len.max;
  if (longest <= max_model_len) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--input-len ", FormatFlagValue(options.input_len), " and --output-len ", FormatFlagValue(options.output_len),
      " may come to ", longest, " tokens, the server takes ", max_model_len));
}

void FillPrompt(const FilePrompt& prompt, v1::GenerateRequest& request) {
  if (const auto* const text = std::get_if<std::string>(&prompt.prompt)) {
    request.set_text(*text);
    return;
  }
  const auto& ids = std::get<std::vector<std::uint32_t>>(prompt.prompt);
  request.mutable_token_ids()->mutable_ids()->Add(ids.begin(), ids.end());
}

}  // namespace

absl::StatusOr<Workload> Workload::Make(WorkloadOptions options, const v1::GetModelInfoResponse& model) {
  RETURN_IF_ERROR(CheckLengths(options, model.max_model_len()));
  std::vector<std::uint32_t> special_ids = SpecialIds(model);
  if (special_ids.size() >= model.vocab_size()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the model has ", model.vocab_size(), " tokens, all of them special: no prompt can be made up"));
  }
  return Workload(std::move(options), model.vocab_size(), std::move(special_ids));
}

Workload::Workload(WorkloadOptions options, std::uint32_t vocab_size, std::vector<std::uint32_t> special_ids)
    : options_(std::move(options)),
      num_ordinary_tokens_(vocab_size - static_cast<std::uint32_t>(special_ids.size())),
      special_ids_(std::move(special_ids)) {}

std::uint32_t Workload::OrdinaryToken(Random& random) const {
  auto id = static_cast<std::uint32_t>(random.Below(num_ordinary_tokens_));
  for (const std::uint32_t special : special_ids_) {
    if (id >= special) ++id;
  }
  return id;
}

PlannedRequest Workload::PlanFrom(Random random, std::uint64_t index) const {
  // Drawn whether it is needed or not, so that --cancel-share, say, leaves the prompts as they were.
  const std::uint32_t num_input = options_.input_len.Sample(random);
  std::uint32_t num_output = options_.output_len.Sample(random);
  const bool is_cancelled = random.Uniform() < options_.cancel_share;
  const double cancel_at = random.Uniform();
  const std::uint64_t sampling_seed = random.Next();

  PlannedRequest planned;
  v1::GenerateRequest& request = planned.request;
  if (options_.prompts.empty()) {
    for (std::uint32_t i = 0; i < num_input; ++i) request.mutable_token_ids()->add_ids(OrdinaryToken(random));
  } else {
    const FilePrompt& prompt = options_.prompts[index % options_.prompts.size()];
    num_output = prompt.output_tokens.value_or(num_output);
    FillPrompt(prompt, request);
  }
  request.mutable_stopping()->set_max_tokens(num_output);
  request.set_cache_salt(options_.cache_salt);
  if (options_.ignore_eos) request.mutable_stopping()->set_ignore_eos(true);
  request.mutable_sampling()->set_temperature(options_.temperature);
  request.mutable_sampling()->set_seed(sampling_seed);
  if (!options_.stream) request.set_stream(false);
  if (is_cancelled) planned.cancel_after_tokens = 1 + static_cast<std::uint32_t>(cancel_at * (num_output - 1));
  return planned;
}

std::string MakeCacheSalt() {
  std::random_device random;
  return absl::StrCat("bench-", absl::Hex(random(), absl::kZeroPad8), absl::Hex(random(), absl::kZeroPad8));
}

}  // namespace trireme::client
