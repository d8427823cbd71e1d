#include "server/text/text_model.h"

#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"

namespace trireme::server {

TextModel::TextModel(std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<const ChatTemplate> chat_template,
                     SpecialTokenTexts special_tokens)
    : tokenizer_(std::move(tokenizer)),
      chat_template_(std::move(chat_template)),
      special_tokens_(std::move(special_tokens)) {}

absl::StatusOr<std::vector<std::uint32_t>> TextModel::EncodeText(std::string_view text, bool add_special_tokens) const {
  if (tokenizer_ == nullptr) {
    return absl::FailedPreconditionError("this model has no tokenizer: send token ids instead of text");
  }
  return tokenizer_->EncodeIds(text, add_special_tokens);
}

absl::StatusOr<RenderedChat> TextModel::EncodeChat(const Chat& chat, absl::Time now) const {
  if (chat_template_ == nullptr) {
    return absl::FailedPreconditionError("this model has no chat template: send a prompt instead of chat messages");
  }
  ASSIGN_OR_RETURN(const OrderedJson context, ChatContext(chat, special_tokens_));
  RenderedChat rendered;
  ASSIGN_OR_RETURN(rendered.text, chat_template_->Render(context, now));
  ASSIGN_OR_RETURN(rendered.ids, EncodeText(rendered.text, /*add_special_tokens=*/false));
  return rendered;
}

}  // namespace trireme::server
