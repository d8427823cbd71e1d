// The tokenizer fixtures and what several tests do with them.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "server/text/gguf_tokenizer.h"
#include "server/text/text_model.h"
#include "server/text/tokenizer.h"

namespace trireme::server {

using Ids = std::vector<std::uint32_t>;

// The content of tests/fixtures/`path`; the test fails if there is none.
std::string ReadFixture(const std::string& path);
nlohmann::ordered_json ReadJsonFixture(const std::string& path);

// The tokenizer in tests/fixtures/hf/`name`.
std::shared_ptr<const Tokenizer> FixtureTokenizer(const std::string& name);

// What a stream gives, piece by piece; the last piece is that of Finish.
std::vector<std::string> Deltas(const Tokenizer& tokenizer, const Ids& ids, bool skip_special);
std::string Concatenate(const std::vector<std::string>& pieces);

// `chat` as the model's template renders it, as Transformers gives it the variables.
absl::StatusOr<std::string> Render(const TextModel& model, const Chat& chat);

bool HoldsReplacement(const std::string& text);  // U+FFFD

// A GGUF vocabulary of the tokens of a fixture's tokenizer.json: what a converter would write.
GgufVocabulary ByteLevelGguf(const std::string& pre);  // hf/text_llama
GgufVocabulary SentencePieceGguf();                    // hf/tokenizer_fallback

}  // namespace trireme::server
