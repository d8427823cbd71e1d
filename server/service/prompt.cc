#include "server/service/prompt.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace trireme::server {
namespace {

std::string TooManyBytes(std::size_t got, std::uint32_t max) {
  return absl::StrCat("has ", got, " bytes, at most ", max, " are taken");
}

// What is made of a message takes memory also where it says nothing.
std::size_t NumBytes(const ServiceLimits& limits, const v1::ChatInput& input) {
  std::size_t total = input.template_variables_json().size() +
                      static_cast<std::size_t>(input.messages_size()) * limits.chat_message_bytes;
  for (const v1::ChatMessage& message : input.messages()) {
    total += message.role().size() + message.content().size() + message.extra_json().size();
  }
  return total;
}

// `text` as an object; empty text is an empty one. Depth is bounded while parsing.
OrderedJson ReadObject(const std::string& text, const std::string& field, Violations& violations) {
  if (text.empty()) return OrderedJson::object();
  bool is_too_deep = false;
  const auto keep = [&is_too_deep](int depth, OrderedJson::parse_event_t, OrderedJson&) {
    is_too_deep |= depth > kMaxJsonDepth;
    return depth <= kMaxJsonDepth;
  };
  OrderedJson value = OrderedJson::parse(text, keep, /*allow_exceptions=*/false);
  if (!is_too_deep && value.is_object()) return value;
  violations.Add(field, is_too_deep ? absl::StrCat("nests more than ", kMaxJsonDepth, " levels deep")
                                    : std::string("is no JSON object"));
  return OrderedJson::object();
}

OrderedJson ReadMessage(const v1::ChatMessage& message, const std::string& field, Violations& violations) {
  if (message.role().empty()) violations.Add(field + ".role", "is empty");
  OrderedJson result = {{"role", message.role()}, {"content", message.content()}};
  const std::string extra_field = field + ".extra_json";
  const OrderedJson extra = ReadObject(message.extra_json(), extra_field, violations);
  for (const auto& [key, value] : extra.items()) {
    if (result.contains(key)) violations.Add(extra_field, absl::StrCat("gives \"", key, "\", which the message has"));
    result[key] = value;
  }
  return result;
}

}  // namespace

void CheckBytes(std::string_view field, std::string_view value, std::uint32_t max, Violations& violations) {
  if (value.size() > max) violations.Add(std::string(field), TooManyBytes(value.size(), max));
}

void CheckText(const ServiceLimits& limits, std::string_view text, Violations& violations) {
  CheckBytes("text", text, limits.max_text_bytes, violations);
}

Chat ReadChat(const ServiceLimits& limits, const v1::ChatInput& input, Violations& violations) {
  Chat chat;
  if (const std::size_t size = NumBytes(limits, input); size > limits.max_text_bytes) {
    violations.Add("chat",
                   absl::StrCat(TooManyBytes(size, limits.max_text_bytes), "; each of its ", input.messages_size(),
                                " messages counts ", limits.chat_message_bytes, " more"));
    return chat;
  }
  if (input.messages().empty()) violations.Add("chat.messages", "is empty");
  for (int i = 0; i < input.messages_size(); ++i) {
    chat.messages.push_back(ReadMessage(input.messages(i), absl::StrCat("chat.messages[", i, "]"), violations));
  }
  chat.variables = ReadObject(input.template_variables_json(), "chat.template_variables_json", violations);
  if (input.has_add_generation_prompt()) chat.add_generation_prompt = input.add_generation_prompt();
  return chat;
}

absl::StatusOr<std::string> RenderChat(const ServedModel& model, const ServiceLimits& limits, const Chat& chat) {
  RETURN_IF_ERROR(RequireTokenizer(model));
  if (model.text.chat_template() == nullptr) {
    return WithReason(absl::FailedPreconditionError(absl::StrCat("chat: the checkpoint of ", model.name,
                                                                 " has no chat template; give text or token_ids")),
                      "NO_CHAT_TEMPLATE");
  }
  Violations violations;
  absl::StatusOr<OrderedJson> context = ChatContext(chat, model.text.special_tokens());
  absl::StatusOr<std::string> text = context.ok() ? model.text.chat_template()->Render(*context) : context.status();
  if (!text.ok()) {
    violations.Add("chat", std::string(text.status().message()));
  } else if (text->size() > limits.max_text_bytes) {
    violations.Add("chat", absl::StrCat("rendered, ", TooManyBytes(text->size(), limits.max_text_bytes)));
  }
  RETURN_IF_ERROR(violations.ToStatus(absl::StatusCode::kInvalidArgument, "INVALID_CHAT"));
  return text;
}

absl::Status RequireTokenizer(const ServedModel& model) {
  if (model.text.tokenizer() != nullptr) return absl::OkStatus();
  return WithReason(absl::FailedPreconditionError(
                        absl::StrCat("the checkpoint of ", model.name, " has no tokenizer: only token_ids are served")),
                    "NO_TOKENIZER");
}

absl::Status CheckModelName(const ServedModel& model, std::string_view name) {
  if (name.empty() || name == model.name) return absl::OkStatus();
  return WithReason(absl::NotFoundError(absl::StrCat("model: no \"", std::string(name.substr(0, 100)),
                                                     "\" here; the served model is \"", model.name, "\"")),
                    "MODEL_NOT_FOUND");
}

bool CheckCount(std::string_view field, int count, std::uint32_t max, Violations& violations) {
  if (count <= static_cast<std::int64_t>(max)) return true;
  violations.Add(std::string(field), absl::StrCat("has ", count, " ids, at most ", max, " are taken"));
  return false;
}

void CheckTokenIds(const ServedModel& model, std::string_view field,
                   const google::protobuf::RepeatedField<std::uint32_t>& ids, Violations& violations) {
  for (int i = 0; i < ids.size(); ++i) {
    if (ids[i] < model.vocab_size) continue;
    violations.Add(absl::StrCat(std::string(field), "[", i, "]"),
                   absl::StrCat("is ", ids[i], ", ids are below ", model.vocab_size));
  }
}

}  // namespace trireme::server
