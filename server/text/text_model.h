// What a checkpoint says about text: its tokenizer and its chat template, each of which it may lack.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/text/chat_template.h"
#include "server/text/tokenizer.h"

namespace trireme::server {

struct RenderedChat {
  std::string text;
  std::vector<std::uint32_t> ids;
};

// Immutable; any number of threads may use one at once.
class TextModel {
 public:
  // Either may be null.
  TextModel(std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<const ChatTemplate> chat_template,
            SpecialTokenTexts special_tokens);

  // Null if the checkpoint has none.
  const std::shared_ptr<const Tokenizer>& tokenizer() const { return tokenizer_; }
  const std::shared_ptr<const ChatTemplate>& chat_template() const { return chat_template_; }
  const SpecialTokenTexts& special_tokens() const { return special_tokens_; }

  // The ids of a plain prompt. FailedPrecondition: the model has no tokenizer.
  absl::StatusOr<std::vector<std::uint32_t>> EncodeText(std::string_view text, bool add_special_tokens) const;

  // The ids of a chat prompt. The template writes a BOS if the model wants one: none is added besides, as Transformers
  // does it. FailedPrecondition: no tokenizer, or no chat template. InvalidArgument: see ChatTemplate::Render.
  absl::StatusOr<RenderedChat> EncodeChat(const Chat& chat, absl::Time now = absl::Now()) const;

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const ChatTemplate> chat_template_;
  SpecialTokenTexts special_tokens_;
};

}  // namespace trireme::server
