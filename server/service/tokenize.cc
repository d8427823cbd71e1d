#include "server/service/tokenize.h"

#include <string>
#include <utility>

#include "base/status_macros.h"
#include "server/service/prompt.h"
#include "server/service/status_details.h"

namespace trireme::server {
namespace {

// The text that is tokenized: the one given, or the rendered chat.
absl::StatusOr<std::string> ReadText(const ServedModel& model, const ServiceLimits& limits,
                                     const v1::TokenizeRequest& request) {
  Violations violations;
  Chat chat;
  if (request.input_case() == v1::TokenizeRequest::INPUT_NOT_SET) {
    violations.Add("input", "is missing: give one of text, chat");
  }
  CheckAddSpecialTokens(request, violations);
  if (request.has_text()) CheckText(limits, request.text(), violations);
  if (request.has_chat()) chat = ReadChat(limits, request.chat(), violations);
  RETURN_IF_ERROR(violations.ToStatus(absl::StatusCode::kInvalidArgument, "INVALID_REQUEST"));
  return request.has_text() ? request.text() : RenderChat(model, limits, chat);
}

}  // namespace

absl::StatusOr<v1::TokenizeResponse> TokenizeText(const ServedModel& model, const ServiceLimits& limits,
                                                  const v1::TokenizeRequest& request) {
  RETURN_IF_ERROR(CheckModelName(model, request.model()));
  ASSIGN_OR_RETURN(std::string text, ReadText(model, limits, request));
  RETURN_IF_ERROR(RequireTokenizer(model));
  ASSIGN_OR_RETURN(const Encoding encoding, model.text.tokenizer()->Encode(text, AddsSpecialTokens(request)));
  v1::TokenizeResponse response;
  response.mutable_token_ids()->Assign(encoding.ids.begin(), encoding.ids.end());
  for (const ByteSpan& span : encoding.spans) {
    v1::TextSpan& proto = *response.add_spans();
    proto.set_begin(span.begin);
    proto.set_end(span.end);
  }
  response.set_text(std::move(text));
  return response;
}

absl::StatusOr<v1::DetokenizeResponse> DetokenizeIds(const ServedModel& model, const ServiceLimits& limits,
                                                     const v1::DetokenizeRequest& request) {
  RETURN_IF_ERROR(CheckModelName(model, request.model()));
  Violations violations;
  if (CheckCount("token_ids", request.token_ids_size(), limits.max_detokenize_ids, violations)) {
    CheckTokenIds(model, "token_ids", request.token_ids(), violations);
  }
  RETURN_IF_ERROR(violations.ToStatus(absl::StatusCode::kInvalidArgument, "INVALID_REQUEST"));
  RETURN_IF_ERROR(RequireTokenizer(model));
  const bool skip_special = !request.has_skip_special_tokens() || request.skip_special_tokens();
  v1::DetokenizeResponse response;
  response.set_text(model.text.tokenizer()->Decode(
      {request.token_ids().data(), static_cast<std::size_t>(request.token_ids_size())}, skip_special));
  return response;
}

}  // namespace trireme::server
