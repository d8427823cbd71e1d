#include "server/text/chat_template.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/text/rust_border.h"

namespace trireme::server {
namespace {

// JSON is written by recursion, here and in the library.
constexpr int kMaxContextDepth = 100;

bool IsDeeperThan(const OrderedJson& value, int depth) {
  if (!value.is_structured()) return false;
  if (depth == 0) return true;
  for (const OrderedJson& item : value) {
    if (IsDeeperThan(item, depth - 1)) return true;
  }
  return false;
}

absl::StatusOr<std::string> Serialize(const OrderedJson& context) {
  if (!context.is_object()) return absl::InvalidArgumentError("the context of a chat template is not an object");
  if (IsDeeperThan(context, kMaxContextDepth)) {
    return absl::InvalidArgumentError(absl::StrCat("chat messages nest more than ", kMaxContextDepth, " levels deep"));
  }
  try {
    return context.dump();
  } catch (const OrderedJson::exception& e) {
    return absl::InvalidArgumentError(absl::StrCat("chat messages: ", e.what()));
  }
}

}  // namespace

struct ChatTemplate::Impl {
  RustTemplate rust;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;

absl::StatusOr<std::shared_ptr<const ChatTemplate>> ChatTemplate::Compile(std::string_view source) {
  trireme_text_template* compiled = nullptr;
  RustBytes error;
  const int code = trireme_text_template_new(View(source), &compiled, error.out());
  RETURN_IF_ERROR(RustStatus(code, error, "chat template"));
  auto impl = std::make_unique<Impl>(Impl{.rust = RustTemplate(compiled)});
  return std::shared_ptr<const ChatTemplate>(new ChatTemplate(std::move(impl)));
}

absl::StatusOr<std::string> ChatTemplate::Render(const OrderedJson& context, absl::Time now) const {
  ASSIGN_OR_RETURN(const std::string json, Serialize(context));
  RustBytes text, error;
  const int code =
      trireme_text_template_render(impl_->rust.get(), View(json), absl::ToUnixSeconds(now), text.out(), error.out());
  RETURN_IF_ERROR(RustStatus(code, error, /*context=*/""));
  return std::string(text.view());
}

absl::StatusOr<OrderedJson> ChatContext(const Chat& chat, const SpecialTokenTexts& special_tokens) {
  if (!chat.messages.is_array()) return absl::InvalidArgumentError("chat messages are not an array");
  for (const OrderedJson& message : chat.messages) {
    if (!message.is_object()) return absl::InvalidArgumentError("a chat message is not an object");
  }
  if (!chat.variables.is_object()) return absl::InvalidArgumentError("template variables are not an object");
  OrderedJson context = {{"messages", chat.messages},
                         {"add_generation_prompt", chat.add_generation_prompt},
                         {"tools", nullptr},
                         {"documents", nullptr}};
  for (const auto& [name, text] : special_tokens) context[name] = text;
  for (const auto& [name, value] : chat.variables.items()) {
    if (name == "messages" || name == "add_generation_prompt") {
      return absl::InvalidArgumentError(absl::StrCat("'", name, "' cannot be a template variable of a request"));
    }
    context[name] = value;
  }
  return context;
}

}  // namespace trireme::server
