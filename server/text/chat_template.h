// Chat templates: messages → the text of a prompt.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

namespace trireme::server {

// JSON that keeps the order of keys, which a template's `tojson` shows.
using OrderedJson = nlohmann::ordered_json;

// A Jinja template, rendered as Transformers renders it: trim_blocks, lstrip_blocks, tojson, raise_exception,
// strftime_now, Python's methods of strings, lists and dicts. Work and recursion are bounded: a template that
// loops for ever is an error after about 0.1 s, and one that nests very deep is one or works.
//
// Immutable; any number of threads may use one at once.
class ChatTemplate {
 public:
  // InvalidArgument: a syntax error, not UTF-8, or more than 256 KiB.
  static absl::StatusOr<std::shared_ptr<const ChatTemplate>> Compile(std::string_view source);
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  // `context` is an object: the template's variables, see ChatContext. `now` is what strftime_now tells, in local time.
  //
  // InvalidArgument: the template raised an exception (the message is its own), failed, or ran too long; or
  // `context` is not an object, not UTF-8, or nests too deep.
  absl::StatusOr<std::string> Render(const OrderedJson& context, absl::Time now = absl::Now()) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

// A conversation, as a request gives it.
struct Chat {
  OrderedJson messages = OrderedJson::array();  // objects with "role", "content", …
  bool add_generation_prompt = true;            // ends with the header of the assistant's next message
  // More variables of the template: "tools", "enable_thinking", …
  OrderedJson variables = OrderedJson::object();
};

// By the name that templates know them by: "bos_token" → "<s>".
using SpecialTokenTexts = std::map<std::string, std::string>;

// The variables that Transformers gives a template: messages, add_generation_prompt, tools and documents
// (none unless given), the special tokens, and `chat.variables`.
//
// InvalidArgument: messages are not an array of objects, or variables not an object or with one of the names
// above that the request gives otherwise (messages, add_generation_prompt).
absl::StatusOr<OrderedJson> ChatContext(const Chat& chat, const SpecialTokenTexts& special_tokens);

}  // namespace trireme::server
