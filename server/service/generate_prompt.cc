#include "server/service/generate_prompt.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/service/prompt.h"

namespace trireme::server {
namespace {

void CheckInputKind(const v1::GenerateRequest& request, Violations& violations) {
  if (request.input_case() == v1::GenerateRequest::INPUT_NOT_SET) {
    violations.Add("input", "is missing: give one of text, token_ids, chat");
  }
  CheckAddSpecialTokens(request, violations);
  if (request.has_truncate_prompt_tokens() && request.truncate_prompt_tokens() == 0) {
    violations.Add("truncate_prompt_tokens", "is 0, must be at least 1");
  }
}

// The input's name in the proto.
std::string InputField(const v1::GenerateRequest& request) {
  if (request.has_text()) return "text";
  return request.has_chat() ? "chat" : "token_ids";
}

// What is left of `num_tokens`.
std::size_t Truncated(const v1::GenerateRequest& request, std::size_t num_tokens) {
  return request.has_truncate_prompt_tokens() ? std::min<std::size_t>(num_tokens, request.truncate_prompt_tokens())
                                              : num_tokens;
}

// Whether it is neither empty nor too long for one more token.
bool CheckPromptLength(const ServedModel& model, const std::string& field, std::size_t num_tokens,
                       Violations& violations) {
  if (num_tokens == 0) violations.Add(field, "has no tokens");
  if (num_tokens >= model.max_model_len) {
    violations.Add(field, absl::StrCat("has ", num_tokens, " tokens, but the context holds ", model.max_model_len,
                                       " for prompt and output"));
  }
  return num_tokens > 0 && num_tokens < model.max_model_len;
}

// The text that is tokenized: the one given, or the rendered chat.
absl::StatusOr<std::string> PromptText(const ServedModel& model, const ServiceLimits& limits,
                                       const v1::GenerateRequest& request, const Chat& chat) {
  if (request.has_text()) return request.text();
  return RenderChat(model, limits, chat);
}

absl::Status CheckTokens(const ServedModel& model, const std::string& field, const std::vector<std::uint32_t>& ids) {
  Violations violations;
  CheckPromptLength(model, field, ids.size(), violations);
  const auto beyond = std::find_if(ids.begin(), ids.end(), [&](std::uint32_t id) { return id >= model.vocab_size; });
  if (beyond != ids.end()) {
    violations.Add(field,
                   absl::StrCat("has a token of id ", *beyond, ", but the model knows ids below ", model.vocab_size));
  }
  return violations.ToStatus(absl::StatusCode::kInvalidArgument, "INVALID_PROMPT");
}

std::string Detokenized(const ServedModel& model, const v1::GenerateRequest& request,
                        const std::vector<std::uint32_t>& ids) {
  const bool skip_special = !request.output().has_skip_special_tokens() || request.output().skip_special_tokens();
  return model.text.tokenizer()->Decode(ids, skip_special);
}

}  // namespace

Chat CheckPrompt(const ServedModel& model, const ServiceLimits& limits, const v1::GenerateRequest& request,
                 Violations& violations) {
  CheckInputKind(request, violations);
  if (request.has_text()) CheckText(limits, request.text(), violations);
  if (request.has_token_ids()) {
    const auto size = static_cast<std::size_t>(request.token_ids().ids_size());
    if (CheckPromptLength(model, "token_ids", Truncated(request, size), violations)) {
      CheckTokenIds(model, "token_ids.ids", request.token_ids().ids(), violations);
    }
  }
  return request.has_chat() ? ReadChat(limits, request.chat(), violations) : Chat();
}

absl::StatusOr<GeneratePrompt> EncodePrompt(const ServedModel& model, const ServiceLimits& limits,
                                            const v1::GenerateRequest& request, const Chat& chat) {
  GeneratePrompt prompt;
  std::string text;
  if (request.has_token_ids()) {
    prompt.ids = {request.token_ids().ids().begin(), request.token_ids().ids().end()};
  } else {
    RETURN_IF_ERROR(RequireTokenizer(model));
    ASSIGN_OR_RETURN(text, PromptText(model, limits, request, chat));
    ASSIGN_OR_RETURN(prompt.ids, model.text.tokenizer()->EncodeIds(text, AddsSpecialTokens(request)));
  }
  const std::size_t num_cut = prompt.ids.size() - Truncated(request, prompt.ids.size());
  prompt.ids.erase(prompt.ids.begin(), prompt.ids.begin() + static_cast<std::ptrdiff_t>(num_cut));
  RETURN_IF_ERROR(CheckTokens(model, InputField(request), prompt.ids));
  if (!request.output().echo()) return prompt;
  RETURN_IF_ERROR(RequireTokenizer(model));
  prompt.echo = request.has_token_ids() || num_cut > 0 ? Detokenized(model, request, prompt.ids) : std::move(text);
  return prompt;
}

}  // namespace trireme::server
