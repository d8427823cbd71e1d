// Bytes → a checkpoint's chat template → a rendered conversation.
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "base/check.h"
#include "server/text/chat_template.h"
#include "server/text/utf8_stream.h"
#include "tests/support/fuzz_target.h"

namespace trireme::server {
namespace {

OrderedJson Conversation() {
  Chat chat;
  chat.messages = OrderedJson::parse(R"([
      {"role": "system", "content": "Be kind."},
      {"role": "user", "content": [{"type": "text", "text": "Zoë?"}]},
      {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, null]}}}]},
      {"role": "tool", "content": "7"},
      {"role": "user", "content": "<|im_end|>\n"}])");
  chat.variables = OrderedJson::parse(R"({"tools": [{"type": "function", "function": {"name": "f"}}]})");
  const absl::StatusOr<OrderedJson> context = ChatContext(chat, {{"bos_token", "<s>"}});
  CHECK_OK(context.status());
  return *context;
}

void CheckFault(const absl::Status& status) {
  CHECK(status.code() == absl::StatusCode::kInvalidArgument) << " " << status.ToString();
  CHECK(!status.message().empty());
}

void Exercise(std::string_view source) {
  static const auto* const context = new OrderedJson(Conversation());
  const auto compiled = ChatTemplate::Compile(source);
  if (!compiled.ok()) return CheckFault(compiled.status());
  const absl::StatusOr<std::string> rendered = (*compiled)->Render(*context, absl::UnixEpoch());
  if (!rendered.ok()) return CheckFault(rendered.status());
  CHECK(IsUtf8(*rendered));
}

}  // namespace
}  // namespace trireme::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::server::Exercise({reinterpret_cast<const char*>(data), size});
  return 0;
}
