#include "tests/server/text/text_fixtures.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>

#include "base/check.h"
#include "base/status_macros.h"
#include "server/text/incremental_decoder.h"

namespace trireme::server {
namespace {

using nlohmann::json;

std::vector<std::string> TokensById(const json& tokenizer) {
  std::map<std::uint32_t, std::string> by_id;
  for (const auto& [token, id] : tokenizer["model"]["vocab"].items()) by_id[id] = token;
  for (const json& added : tokenizer["added_tokens"]) by_id[added["id"]] = added["content"];
  std::vector<std::string> tokens;
  for (const auto& [id, token] : by_id) {
    CHECK_EQ(id, tokens.size());
    tokens.push_back(token);
  }
  return tokens;
}

GgufVocabulary Tokens(const json& tokenizer) {
  GgufVocabulary vocabulary;
  vocabulary.tokens = TokensById(tokenizer);
  vocabulary.token_types.assign(vocabulary.tokens.size(), kGgufNormal);
  for (const json& added : tokenizer["added_tokens"]) {
    vocabulary.token_types[added["id"]] = added["special"] ? kGgufControl : kGgufUserDefined;
  }
  return vocabulary;
}

}  // namespace

std::string ReadFixture(const std::string& path) {
  std::ifstream in(std::string(TRIREME_FIXTURES) + "/" + path, std::ios::binary);
  CHECK(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

nlohmann::ordered_json ReadJsonFixture(const std::string& path) {
  return nlohmann::ordered_json::parse(ReadFixture(path));
}

std::shared_ptr<const Tokenizer> FixtureTokenizer(const std::string& name) {
  auto tokenizer = Tokenizer::FromJson(ReadFixture("hf/" + name + "/tokenizer.json"));
  CHECK_OK(tokenizer.status());
  return *tokenizer;
}

std::vector<std::string> Deltas(const Tokenizer& tokenizer, const Ids& ids, bool skip_special) {
  IncrementalDecoder decoder(tokenizer, skip_special);
  std::vector<std::string> deltas;
  for (const std::uint32_t id : ids) deltas.push_back(decoder.Push(id));
  deltas.push_back(decoder.Finish());
  return deltas;
}

std::string Concatenate(const std::vector<std::string>& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

absl::StatusOr<std::string> Render(const TextModel& model, const Chat& chat) {
  ASSIGN_OR_RETURN(const OrderedJson context, ChatContext(chat, model.special_tokens()));
  return model.chat_template()->Render(context);
}

bool HoldsReplacement(const std::string& text) { return text.find("\uFFFD") != std::string::npos; }

GgufVocabulary ByteLevelGguf(const std::string& pre) {
  const json tokenizer = json::parse(ReadFixture("hf/text_llama/tokenizer.json"));
  GgufVocabulary vocabulary = Tokens(tokenizer);
  vocabulary.model = "gpt2";
  vocabulary.pre = pre;
  for (const json& merge : tokenizer["model"]["merges"]) {
    vocabulary.merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  vocabulary.bos_token_id = 506;  // <|im_start|>
  vocabulary.eos_token_id = 507;  // <|im_end|>
  return vocabulary;
}

GgufVocabulary SentencePieceGguf() {
  const json tokenizer = json::parse(ReadFixture("hf/tokenizer_fallback/tokenizer.json"));
  GgufVocabulary vocabulary = Tokens(tokenizer);
  vocabulary.model = "llama";
  vocabulary.token_types[0] = kGgufUnknown;
  std::map<std::string, float> score_of;  // of the pieces that merges make: the earlier, the higher
  for (const json& merge : tokenizer["model"]["merges"]) {
    score_of.emplace(merge[0].get<std::string>() + merge[1].get<std::string>(), -static_cast<float>(score_of.size()));
  }
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& token = vocabulary.tokens[id];
    if (token.size() == 6 && token.starts_with("<0x")) vocabulary.token_types[id] = kGgufByte;
    const auto score = score_of.find(token);
    vocabulary.scores.push_back(score == score_of.end() ? -1e6F : score->second);
  }
  vocabulary.bos_token_id = 1;
  vocabulary.eos_token_id = 2;
  vocabulary.unknown_token_id = 0;
  return vocabulary;
}

}  // namespace trireme::server
