// What a checkpoint says about text: its tokenizer and its chat template, each of which it may lack.
#pragma once
#include <memory>
#include <utility>

#include "server/text/chat_template.h"
#include "server/text/tokenizer.h"

namespace trireme::server {

// Immutable; any number of threads may use one at once.
class TextModel {
 public:
  // Either may be null.
  TextModel(std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<const ChatTemplate> chat_template,
            SpecialTokenTexts special_tokens)
      : tokenizer_(std::move(tokenizer)),
        chat_template_(std::move(chat_template)),
        special_tokens_(std::move(special_tokens)) {}

  // Null if the checkpoint has none.
  const std::shared_ptr<const Tokenizer>& tokenizer() const { return tokenizer_; }
  const std::shared_ptr<const ChatTemplate>& chat_template() const { return chat_template_; }
  const SpecialTokenTexts& special_tokens() const { return special_tokens_; }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const ChatTemplate> chat_template_;
  SpecialTokenTexts special_tokens_;
};

}  // namespace trireme::server
