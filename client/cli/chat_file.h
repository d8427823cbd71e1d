// Conversations as JSON files.
#pragma once
#include <istream>
#include <string>

#include "absl/status/statusor.h"
#include "trireme/v1/text.pb.h"

namespace trireme::client {

// Either a list of messages, or an object {"messages": [...], "template_variables": {...}}. A message is an object with
// "role" and "content", both strings; further keys ("tool_calls", "name") go to the template as they are.
//
// InvalidArgument names the message and key that are wrong.
absl::StatusOr<v1::ChatInput> ParseChat(const std::string& json_text);

// Reads a file; "-" is `standard_input`. NotFound if it cannot be opened; else as ParseChat, with the file's name.
absl::StatusOr<v1::ChatInput> ReadChatFile(const std::string& path, std::istream& standard_input);

}  // namespace trireme::client
