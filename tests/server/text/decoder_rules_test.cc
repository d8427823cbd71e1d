#include "server/text/decoder_rules.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace trireme::server {
namespace {

using ::testing::HasSubstr;

DecoderRules Parse(std::string_view json) {
  auto rules = DecoderRules::Parse(json);
  EXPECT_TRUE(rules.ok()) << rules.status();
  return rules.ok() ? *rules : DecoderRules();
}

constexpr std::string_view kByteLevel =
    R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})";
constexpr std::string_view kReplace = R"({"type":"Replace","pattern":{"String":"▁"},"content":" "})";

std::string Sequence(const std::vector<std::string_view>& parts) {
  std::string json = R"({"type":"Sequence","decoders":[)";
  for (std::size_t i = 0; i < parts.size(); ++i) json += std::string(i == 0 ? "" : ",") + std::string(parts[i]);
  return json + "]}";
}

TEST(DecoderRulesTest, ByteLevelMapsItsAlphabetToBytes) {
  const DecoderRules rules = Parse(kByteLevel);
  EXPECT_EQ(rules.TokenBytes("Ġthe", false), " the");
  EXPECT_EQ(rules.TokenBytes("Ċ", false), "\n");
  EXPECT_EQ(rules.TokenBytes("Ã", false), "\xC3");
  EXPECT_EQ(rules.TokenBytes("Ń", false), "\xAD") << "the last of the alphabet";
  EXPECT_EQ(rules.TokenBytes("Ā", false), std::string(1, '\0'));
  EXPECT_EQ(rules.TokenBytes("", false), "");
}

TEST(DecoderRulesTest, ByteLevelTakesATokenOutsideItsAlphabetLiterally) {
  const DecoderRules rules = Parse(kByteLevel);
  EXPECT_EQ(rules.TokenBytes("<｜User｜>", false), "<｜User｜>");
  EXPECT_EQ(rules.TokenBytes("Ġ日", false), "Ġ日") << "one such character, and none is mapped";
  EXPECT_EQ(rules.TokenBytes("a b", false), "a b") << "a space is not in the alphabet";
  EXPECT_EQ(rules.TokenBytes("ń", false), "ń") << "one beyond the alphabet";
}

TEST(DecoderRulesTest, ByteFallbackGivesTheByteOfASpelling) {
  const DecoderRules rules = Parse(Sequence({kReplace, R"({"type":"ByteFallback"})", R"({"type":"Fuse"})"}));
  EXPECT_EQ(rules.TokenBytes("<0xE2>", false), "\xE2");
  EXPECT_EQ(rules.TokenBytes("<0x0a>", false), "\n");
  EXPECT_EQ(rules.TokenBytes("<0xG0>", false), "<0xG0>");
  EXPECT_EQ(rules.TokenBytes("▁the▁", false), " the ");
  EXPECT_EQ(rules.leading_strip().count, 0);
}

TEST(DecoderRulesTest, StripIsARuleForTheWholeText) {
  const DecoderRules rules =
      Parse(Sequence({kReplace, R"({"type":"Fuse"})", R"({"type":"Strip","content":" ","start":1,"stop":0})"}));
  EXPECT_EQ(rules.leading_strip().content, " ");
  EXPECT_EQ(rules.leading_strip().count, 1);
  EXPECT_EQ(rules.TokenBytes("<0x41>", false), "<0x41>") << "no ByteFallback in this sequence";
}

TEST(DecoderRulesTest, MetaspaceDropsItsMarksInTheFirstTokenOnly) {
  const DecoderRules rules = Parse(R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true})");
  EXPECT_EQ(rules.TokenBytes("▁a▁b", true), "ab");
  EXPECT_EQ(rules.TokenBytes("▁a▁b", false), " a b");
  const DecoderRules never = Parse(R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"never","split":true})");
  EXPECT_EQ(never.TokenBytes("▁a", true), " a");
}

TEST(DecoderRulesTest, RefusesByNameWhatDoesNotWorkTokenByToken) {
  const std::vector<std::string> refused = {
      R"({"type":"WordPiece","prefix":"##","cleanup":true})",
      R"({"type":"BPEDecoder","suffix":"</w>"})",
      R"({"type":"CTC","pad_token":"<pad>","word_delimiter_token":"|","cleanup":true})",
      R"({"type":"Replace","pattern":{"Regex":"a+"},"content":"b"})",
      Sequence({R"({"type":"Fuse"})", kReplace}),
      Sequence({R"({"type":"ByteFallback"})", kReplace}),
      Sequence({kByteLevel, kReplace}),
      Sequence({kReplace, kByteLevel}),
      R"({"type":"Strip","content":" ","start":1,"stop":0})",
      Sequence({R"({"type":"Fuse"})", R"({"type":"Strip","content":" ","start":0,"stop":1})"}),
      "null",
  };
  for (const std::string& json : refused) {
    EXPECT_EQ(DecoderRules::Parse(json).status().code(), absl::StatusCode::kUnimplemented) << json;
  }
  EXPECT_THAT(std::string(DecoderRules::Parse(refused[0]).status().message()), HasSubstr("WordPiece"));
}

TEST(DecoderRulesTest, RefusesMalformedJson) {
  for (const std::string_view json :
       {"", "{", "[]", "7", R"({"type":3})", R"({"decoders":[1]})", R"({"type":"Replace","content":" "})",
        R"({"type":"Metaspace"})",
        R"({"decoders":[{"type":"Fuse"},{"type":"Strip","content":" ","start":-1,"stop":0}]})"}) {
    EXPECT_EQ(DecoderRules::Parse(json).status().code(), absl::StatusCode::kInvalidArgument) << json;
  }
}

}  // namespace
}  // namespace trireme::server
