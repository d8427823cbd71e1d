#include "sharding/checkpoint/hf_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "sharding/checkpoint/error_text.h"
#include "tests/sharding/checkpoint/checkpoint_files.h"

namespace trireme::sharding {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A file with one tensor of one byte each.
std::string Shard(const std::vector<std::string>& names) {
  std::string json = "{";
  for (std::size_t i = 0; i < names.size(); ++i) {
    json += (i == 0 ? "\"" : ",\"") + names[i] + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" + std::to_string(i) +
            "," + std::to_string(i + 1) + "]}";
  }
  return Safetensors(json + "}", names.size());
}

// A folder of two shards: a and b lie in one, c in two.
class HfFolderTest : public testing::Test {
 protected:
  HfFolderTest() {
    Write("config.json", R"({"model_type": "llama"})");
    Write("one.safetensors", Shard({"a", "b"}));
    Write("two.safetensors", Shard({"c"}));
    WriteIndex(R"("a":"one.safetensors","b":"one.safetensors","c":"two.safetensors")");
  }

  void Write(const std::string& name, const std::string& text) { WriteFile(folder_.path() / name, text); }
  void WriteIndex(const std::string& map) {
    Write("model.safetensors.index.json", R"({"metadata":{"total_size":3},"weight_map":{)" + map + "}}");
  }
  void Remove(const std::string& name) { std::filesystem::remove(folder_.path() / name); }

  std::string Refusal() {
    const auto opened = Checkpoint::Open(folder_.path());
    EXPECT_FALSE(opened.ok());
    return std::string(opened.status().message());
  }

  TemporaryFolder folder_;
};

TEST_F(HfFolderTest, OpensShards) {
  const auto opened = Checkpoint::Open(folder_.path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->tensors().size(), 3u);
  EXPECT_NE((*opened)->FindTensor("c")->file_index, (*opened)->FindTensor("a")->file_index);
  EXPECT_EQ((*opened)->generation_config(), nlohmann::json::object());
}

TEST_F(HfFolderTest, MissingShardIsNamed) {
  Remove("two.safetensors");
  EXPECT_THAT(Refusal(), HasSubstr("two.safetensors"));
  EXPECT_EQ(Checkpoint::Open(folder_.path()).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(HfFolderTest, TruncatedShardIsNamed) {
  Write("two.safetensors", Shard({"c"}).substr(0, Shard({"c"}).size() - 1));
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("two.safetensors"), HasSubstr("\"c\""), HasSubstr("cut short")));
}

TEST_F(HfFolderTest, IndexAndShardsMustAgree) {
  WriteIndex(R"("a":"one.safetensors","b":"one.safetensors","c":"two.safetensors","d":"two.safetensors")");
  EXPECT_THAT(Refusal(), HasSubstr("says that tensor \"d\" lies in \"two.safetensors\", it does not"));
  WriteIndex(R"("a":"one.safetensors","b":"two.safetensors","c":"two.safetensors")");
  EXPECT_THAT(Refusal(),
              AllOf(HasSubstr("tensor \"b\" lies in \"two.safetensors\", it lies in"), HasSubstr("one.safetensors")));
  WriteIndex(R"("a":"one.safetensors","c":"two.safetensors")");
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("tensor \"b\" of"), HasSubstr("is not listed")));
}

TEST_F(HfFolderTest, TensorInTwoShardsIsRefused) {
  Write("two.safetensors", Shard({"c", "a"}));
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("tensor \"a\" lies in two files"), HasSubstr("one.safetensors and"),
                               HasSubstr("two.safetensors")));
}

TEST_F(HfFolderTest, IndexMustNotLeaveTheFolder) {
  for (const char* file : {"\"../one.safetensors\"", "\"/etc/passwd\"", "\"sub/one.safetensors\"", "\"..\"", "\".\"",
                           "\"\"", "\"a\\u0000b\"", "3", "null"}) {
    WriteIndex(R"("a":)" + std::string(file));
    EXPECT_THAT(Refusal(), HasSubstr("expected the name of a file in the same folder")) << file;
  }
}

TEST_F(HfFolderTest, MalformedIndexIsNamed) {
  for (const char* text : {"{}", R"({"weight_map":[]})", "[]", "{", "", R"({"weight_map":{},"weight_map":{}})"}) {
    Write("model.safetensors.index.json", text);
    EXPECT_THAT(Refusal(), HasSubstr("model.safetensors.index.json")) << text;
  }
}

TEST_F(HfFolderTest, SingleFileComesBeforeAnIndex) {
  Write("model.safetensors", Shard({"x"}));
  const auto opened = Checkpoint::Open(folder_.path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_NE((*opened)->FindTensor("x"), nullptr);
  EXPECT_EQ((*opened)->FindTensor("a"), nullptr);
}

TEST_F(HfFolderTest, NoWeightsIsAnError) {
  Remove("model.safetensors.index.json");
  EXPECT_THAT(Refusal(), HasSubstr("has neither model.safetensors nor model.safetensors.index.json"));
}

TEST_F(HfFolderTest, ConfigMustBeAnObject) {
  for (const char* text : {"", "{", "[]", "3", "{}{}", "\xff", R"({"a":1,"a":2})"}) {
    Write("config.json", text);
    EXPECT_THAT(Refusal(), HasSubstr("config.json")) << text;
  }
  Write("config.json", std::string("{}\0x", 4));
  EXPECT_THAT(Refusal(), HasSubstr("zero byte"));
  Remove("config.json");
  EXPECT_THAT(Refusal(), HasSubstr("config.json"));
}

TEST_F(HfFolderTest, MalformedGenerationConfigIsNamed) {
  Write("generation_config.json", "nope");
  EXPECT_THAT(Refusal(), HasSubstr("generation_config.json"));
}

TEST_F(HfFolderTest, HugeConfigIsNotRead) {
  Write("config.json", "{}" + std::string(2 << 20, ' '));
  EXPECT_THAT(Refusal(), HasSubstr("at most 1048576 are read"));
}

TEST_F(HfFolderTest, FifoDoesNotBlock) {
  Remove("two.safetensors");
  ASSERT_EQ(mkfifo((folder_.path() / "two.safetensors").c_str(), 0600), 0);
  EXPECT_THAT(Refusal(), HasSubstr("two.safetensors is not a regular file"));
}

TEST(Open, NamesAPathThatIsNotThere) {
  const auto opened = Checkpoint::Open("/nonexistent/model.gguf");
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr("/nonexistent/model.gguf"));
  EXPECT_THAT(std::string(Checkpoint::Open(Fixture("hf/llama/config.json")).status().message()),
              HasSubstr("config.json: not a GGUF file"));
}

TEST(Quoted, EscapesAndCuts) {
  EXPECT_EQ(Quoted("a\n\xff"), "\"a\\n\\xff\"");
  EXPECT_EQ(Quoted(std::string(1000, 'x')), "\"" + std::string(100, 'x') + "…\"");
}

TEST(IsUtf8, KnowsTheEdges) {
  for (const char* valid : {"", "a", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
                            "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "Ġa▁"}) {
    EXPECT_TRUE(IsUtf8(valid)) << Quoted(valid);
  }
  for (const char* invalid :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2\x41", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe1\x80",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xf1\x80\x80", "a\xff"}) {
    EXPECT_FALSE(IsUtf8(invalid)) << Quoted(invalid);
  }
}

}  // namespace
}  // namespace trireme::sharding
