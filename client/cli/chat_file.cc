#include "client/cli/chat_file.h"

#include <array>
#include <cstddef>
#include <fstream>
#include <istream>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace trireme::client {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxFileBytes = 64 << 20;  // more than a server takes

// Takes the string `key` out of `message`.
absl::StatusOr<std::string> TakeString(json& message, std::size_t index, const char* key) {
  const auto found = message.find(key);
  if (found == message.end()) {
    return absl::InvalidArgumentError(absl::StrCat("message ", index, " has no \"", key, "\""));
  }
  if (!found->is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat("message ", index, ": \"", key, "\" is ", found->type_name(), "; expected a string"));
  }
  std::string value = found->get<std::string>();
  message.erase(found);
  return value;
}

absl::StatusOr<v1::ChatMessage> ParseMessage(json message, std::size_t index) {
  if (!message.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat("message ", index, " is ", message.type_name(),
                                                   "; expected an object with \"role\" and \"content\""));
  }
  v1::ChatMessage parsed;
  ASSIGN_OR_RETURN(*parsed.mutable_role(), TakeString(message, index, "role"));
  ASSIGN_OR_RETURN(*parsed.mutable_content(), TakeString(message, index, "content"));
  if (!message.empty()) parsed.set_extra_json(message.dump());
  return parsed;
}

absl::Status CheckKeys(const json& chat) {
  for (const auto& [key, value] : chat.items()) {
    if (key != "messages" && key != "template_variables") {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown key \"", key, "\"; expected \"messages\" or \"template_variables\""));
    }
  }
  return absl::OkStatus();
}

// At most kMaxFileBytes.
absl::StatusOr<std::string> ReadAll(std::istream& in) {
  std::string text;
  std::array<char, 1 << 16> buffer;
  while (in.read(buffer.data(), buffer.size()), in.gcount() > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > kMaxFileBytes) {
      return absl::InvalidArgumentError(absl::StrCat("has more than ", kMaxFileBytes, " bytes"));
    }
  }
  if (in.bad()) return absl::InvalidArgumentError("cannot be read");
  return text;
}

}  // namespace

absl::StatusOr<v1::ChatInput> ParseChat(const std::string& json_text) {
  json chat;
  try {
    chat = json::parse(json_text);
  } catch (const json::parse_error& error) {
    return absl::InvalidArgumentError(error.what());
  }
  v1::ChatInput input;
  json messages = std::move(chat);
  if (messages.is_object()) {
    chat = std::exchange(messages, json());
    RETURN_IF_ERROR(CheckKeys(chat));
    if (const auto variables = chat.find("template_variables"); variables != chat.end()) {
      if (!variables->is_object()) {
        return absl::InvalidArgumentError(
            absl::StrCat("\"template_variables\" is ", variables->type_name(), "; expected an object"));
      }
      input.set_template_variables_json(variables->dump());
    }
    if (const auto found = chat.find("messages"); found != chat.end()) messages = std::move(*found);
  }
  if (!messages.is_array() || messages.empty()) {
    return absl::InvalidArgumentError("expected a list of at least one message, or an object with it in \"messages\"");
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    ASSIGN_OR_RETURN(*input.add_messages(), ParseMessage(std::move(messages[i]), i));
  }
  return input;
}

absl::StatusOr<v1::ChatInput> ReadChatFile(const std::string& path, std::istream& standard_input) {
  std::ifstream file;
  if (path != "-") {
    file.open(path);
    if (!file) return absl::NotFoundError(absl::StrCat(path, ": cannot be opened"));
  }
  std::istream& in = path == "-" ? standard_input : file;
  const absl::StatusOr<std::string> text = ReadAll(in);
  absl::StatusOr<v1::ChatInput> chat = text.ok() ? ParseChat(*text) : text.status();
  if (!chat.ok()) return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::string(chat.status().message())));
  return chat;
}

}  // namespace trireme::client
