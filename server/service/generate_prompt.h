// The prompt of a GenerateRequest → token ids, and the text that an echo shows.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/service/limits.h"
#include "server/service/served_model.h"
#include "server/service/status_details.h"
#include "server/text/chat_template.h"
#include "trireme/v1/generate.pb.h"

namespace trireme::server {

struct GeneratePrompt {
  std::vector<std::uint32_t> ids;
  std::optional<std::string> echo;  // if output.echo asks for it
};

// Notes in `violations` whatever is wrong with the prompt, as far as that can be told without a tokenizer. The result is
// the conversation of a chat, for EncodePrompt, and else empty.
Chat CheckPrompt(const ServedModel& model, const ServiceLimits& limits, const v1::GenerateRequest& request,
                 Violations& violations);

// Renders and tokenizes, which may take long, and cuts off what truncate_prompt_tokens does not leave.
//
// INVALID_ARGUMENT: the prompt has no tokens, too many, or some that the model does not know; see RenderChat as well.
// FAILED_PRECONDITION: text, a chat or an echo without a tokenizer, a chat without a template.
// REQUIRES: CheckPrompt found nothing wrong; `chat` is its result.
absl::StatusOr<GeneratePrompt> EncodePrompt(const ServedModel& model, const ServiceLimits& limits,
                                            const v1::GenerateRequest& request, const Chat& chat);

}  // namespace trireme::server
