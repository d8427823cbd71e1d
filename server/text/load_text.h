// The text side of a checkpoint, read from where it lies.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/text/gguf_tokenizer.h"
#include "server/text/text_model.h"

namespace trireme::server {

// From a Hugging Face folder:
//   tokenizer.json         without it the model has no tokenizer, and the rest is not read
//   tokenizer_config.json  bos_token, eos_token, unk_token, pad_token (a text or {"content": text});
//                          add_bos_token and add_eos_token, which if present replace the post-processor of
//                          tokenizer.json; chat_template (a text, or a list of {name, template} of which "default" is
//                          taken)
//   chat_template.jinja    goes before the one in tokenizer_config.json
// An error names the file. NotFound: there is no such folder.
absl::StatusOr<TextModel> LoadTextFromFolder(const std::string& folder);

// From the metadata of a GGUF file; `chat_template` is `tokenizer.chat_template`.
absl::StatusOr<TextModel> LoadTextFromGguf(const GgufVocabulary& vocabulary,
                                           const std::optional<std::string>& chat_template);

}  // namespace trireme::server
