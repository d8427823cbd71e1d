// What a request gives as text → the text that is tokenized. One way for Generate and Tokenize.
#pragma once
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/service/limits.h"
#include "server/service/served_model.h"
#include "server/service/status_details.h"
#include "server/text/chat_template.h"
#include "trireme/v1/text.pb.h"

namespace trireme::server {

// Notes in `violations` if the string `value` of the field `field` has more than `max` bytes.
void CheckBytes(std::string_view field, std::string_view value, std::uint32_t max, Violations& violations);

// Notes in `violations`, under the name "text", what is wrong with a plain text.
void CheckText(const ServiceLimits& limits, std::string_view text, Violations& violations);

// A conversation as templates take it. Notes in `violations`, under "chat", whatever is wrong; the result is then of no
// use.
Chat ReadChat(const ServiceLimits& limits, const v1::ChatInput& input, Violations& violations);

// The text of `chat`. FAILED_PRECONDITION: the checkpoint has no tokenizer or no chat template. INVALID_ARGUMENT: the
// template refuses the conversation, or makes too long a text of it. With ErrorInfo.
absl::StatusOr<std::string> RenderChat(const ServedModel& model, const ServiceLimits& limits, const Chat& chat);

// Whether the tokenizer adds its special tokens to the input of a GenerateRequest or TokenizeRequest: to a text unless
// the request says otherwise; a chat template has written them itself.
template <typename Request>
bool AddsSpecialTokens(const Request& request) {
  return request.has_text() && (!request.has_add_special_tokens() || request.add_special_tokens());
}

// Notes in `violations` if the request says so of another input than a text.
template <typename Request>
void CheckAddSpecialTokens(const Request& request, Violations& violations) {
  if (request.has_add_special_tokens() && !request.has_text()) {
    violations.Add("add_special_tokens", "is for text only");
  }
}

// FAILED_PRECONDITION if the checkpoint has no tokenizer, with ErrorInfo.
absl::Status RequireTokenizer(const ServedModel& model);

// NOT_FOUND unless `name` is empty or the served model's, with ErrorInfo.
absl::Status CheckModelName(const ServedModel& model, std::string_view name);

// Whether the `count` ids of the field `field` are at most `max`; notes in `violations` if they are not.
bool CheckCount(std::string_view field, int count, std::uint32_t max, Violations& violations);

// Notes in `violations` which of `ids` (the field `field`) are not below the vocabulary's size.
void CheckTokenIds(const ServedModel& model, std::string_view field,
                   const google::protobuf::RepeatedField<std::uint32_t>& ids, Violations& violations);

}  // namespace trireme::server
