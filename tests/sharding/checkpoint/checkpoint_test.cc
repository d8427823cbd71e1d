#include "sharding/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "sharding/checkpoint/float_formats.h"
#include "tests/sharding/checkpoint/checkpoint_files.h"

namespace trireme::sharding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<Checkpoint> OpenFixture(std::string_view path) {
  auto opened = Checkpoint::Open(Fixture(path));
  EXPECT_TRUE(opened.ok()) << opened.status();
  return opened.ok() ? *std::move(opened) : nullptr;
}

std::vector<float> ReadFloats(const Checkpoint& checkpoint, const std::string& name, std::vector<Intervals> slices) {
  std::size_t size = 1;
  for (const Intervals& intervals : slices) size *= static_cast<std::size_t>(TotalSize(intervals));
  // One more, to see that nothing is written behind the end.
  std::vector<float> out(size + 1, 12345.0f);
  const absl::Status status = checkpoint.Read(name, slices, DType::kF32, out.data());
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(out.back(), 12345.0f);
  out.pop_back();
  return out;
}

std::vector<float> ReadAll(const Checkpoint& checkpoint, const std::string& name) {
  return ReadFloats(checkpoint, name, WholeTensor(checkpoint.tensors().at(name).shape));
}

std::vector<float> SliceOf(const std::vector<float>& full, const std::vector<std::int64_t>& shape,
                           const std::vector<Intervals>& slices) {
  std::vector<float> out;
  const std::int64_t columns = shape.back();
  const Intervals rows = shape.size() == 1 ? Intervals{{0, 1}} : slices[0];
  for (const Interval& row_interval : rows) {
    for (std::int64_t r = row_interval.begin; r < row_interval.end; ++r) {
      for (const Interval& interval : slices.back()) {
        const auto row = full.begin() + r * columns;
        out.insert(out.end(), row + interval.begin, row + interval.end);
      }
    }
  }
  return out;
}

Intervals RandomIntervals(std::int64_t extent, std::mt19937& random) {
  Intervals intervals;
  for (int i = 0; i < 1 + static_cast<int>(random() % 3); ++i) {
    const std::int64_t from = intervals.empty() ? 0 : intervals.back().end;
    const std::int64_t begin = from + static_cast<std::int64_t>(random()) % (extent - from + 1);
    intervals.push_back({begin, begin + static_cast<std::int64_t>(random()) % (extent - begin + 1)});
  }
  return intervals;
}

// The checkpoint of a tensor that HF and GGUF both have must read alike, bit for bit.
void ExpectSameTensors(const Checkpoint& got, const Checkpoint& want) {
  ASSERT_EQ(got.tensors().size(), want.tensors().size());
  for (const auto& [name, tensor] : want.tensors()) {
    SCOPED_TRACE(name);
    ASSERT_NE(got.FindTensor(name), nullptr);
    EXPECT_EQ(got.FindTensor(name)->shape, tensor.shape);
    EXPECT_EQ(ReadAll(got, name), ReadAll(want, name));
  }
}

TEST(Checkpoint, GgufOfAllTypesReadsLikeItsDequantizedFolder) {
  const auto gguf = OpenFixture("gguf/mixed.gguf");
  const auto folder = OpenFixture("gguf/mixed");
  ExpectSameTensors(*gguf, *folder);
  nlohmann::json expected = folder->config();
  EXPECT_EQ(gguf->config(), expected);
}

TEST(Checkpoint, GgufWithBiasesReadsLikeTheOriginal) {
  ExpectSameTensors(*OpenFixture("gguf/llama_bias.gguf"), *OpenFixture("hf/llama_bias"));
}

TEST(Checkpoint, SlicesEqualSlicesOfTheWhole) {
  std::mt19937 random(3);
  for (const char* path : {"gguf/mixed.gguf", "gguf/mixed", "hf/llama", "gguf/llama_bias.gguf"}) {
    const auto checkpoint = OpenFixture(path);
    for (const auto& [name, tensor] : checkpoint->tensors()) {
      SCOPED_TRACE(name);
      const std::vector<float> full = ReadAll(*checkpoint, name);
      for (int round = 0; round < 20; ++round) {
        std::vector<Intervals> slices;
        for (const std::int64_t extent : tensor.shape) slices.push_back(RandomIntervals(extent, random));
        ASSERT_EQ(ReadFloats(*checkpoint, name, slices), SliceOf(full, tensor.shape, slices)) << path;
      }
    }
  }
}

TEST(Checkpoint, BFloat16IsTheFloatRounded) {
  const auto checkpoint = OpenFixture("gguf/mixed.gguf");
  for (const auto& [name, tensor] : checkpoint->tensors()) {
    SCOPED_TRACE(name);
    const std::vector<float> floats = ReadAll(*checkpoint, name);
    std::vector<std::uint16_t> expected(floats.size());
    std::transform(floats.begin(), floats.end(), expected.begin(), FloatToBFloat16);
    std::vector<std::uint16_t> got(floats.size());
    ASSERT_TRUE(checkpoint->ReadWhole(name, DType::kBF16, got.data()).ok());
    EXPECT_EQ(got, expected);
  }
}

TEST(Checkpoint, OpeningReadsHeadersOnly) {
  const auto folder = OpenFixture("hf/llama");
  const std::string file = ReadFile(Fixture("hf/llama/model.safetensors"));
  std::uint64_t header = 0;
  std::memcpy(&header, file.data(), 8);
  const auto json_bytes =
      ReadFile(Fixture("hf/llama/config.json")).size() + ReadFile(Fixture("hf/llama/generation_config.json")).size();
  EXPECT_EQ(folder->header_bytes_read(), static_cast<std::int64_t>(8 + header + json_bytes));
  EXPECT_EQ(folder->tensor_bytes_read(), 0);
}

TEST(Checkpoint, CountsExactlyTheBytesOfASlice) {
  const auto folder = OpenFixture("hf/llama");  // float32
  const std::int64_t before = folder->header_bytes_read();
  ReadFloats(*folder, "model.layers.1.mlp.down_proj.weight", {{{0, 64}}, {{10, 17}, {20, 23}}});
  EXPECT_EQ(folder->tensor_bytes_read(), 64 * 10 * 4);
  ReadFloats(*folder, "model.layers.1.mlp.up_proj.weight", {{{3, 9}}, {{0, 64}}});
  EXPECT_EQ(folder->tensor_bytes_read(), 64 * 10 * 4 + 6 * 64 * 4);
  EXPECT_EQ(folder->header_bytes_read(), before);
}

TEST(Checkpoint, CountsTheBlocksThatHoldASlice) {
  const auto gguf = OpenFixture("gguf/mixed.gguf");
  // Q4_1, 256 columns in blocks of 32 elements and 20 bytes: [40, 100) lies in blocks 1, 2 and 3.
  ReadFloats(*gguf, "model.layers.0.mlp.up_proj.weight", {{{5, 9}}, {{40, 100}}});
  EXPECT_EQ(gguf->tensor_bytes_read(), 4 * 3 * 20);
  // Two intervals that share block 2 read it once.
  ReadFloats(*gguf, "model.layers.0.mlp.up_proj.weight", {{{5, 9}}, {{64, 70}, {80, 96}}});
  EXPECT_EQ(gguf->tensor_bytes_read(), 4 * 3 * 20 + 4 * 20);
  // Q4_0 q rows of one head of 8, interleaved in the file: the rows of the head and no others.
  ReadFloats(*gguf, "model.layers.0.self_attn.q_proj.weight", {{{8, 16}}, {{0, 256}}});
  EXPECT_EQ(gguf->tensor_bytes_read(), 4 * 3 * 20 + 4 * 20 + 8 * 8 * 18);
}

TEST(Checkpoint, TensorsLargerThanOneReadComeWhole) {
  TemporaryFolder folder;
  constexpr std::int64_t kRows = 700;
  constexpr std::int64_t kColumns = 1000;  // 2.8 MB: three reads
  const std::string json = R"({"t":{"dtype":"F32","shape":[700,1000],"data_offsets":[0,2800000]}})";
  std::vector<float> values(kRows * kColumns);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  std::string file = Safetensors(json, 0);
  file.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  WriteFile(folder.path() / "model.safetensors", file);
  WriteFile(folder.path() / "config.json", "{}");
  const auto checkpoint = *Checkpoint::Open(folder.path());
  EXPECT_EQ(ReadAll(*checkpoint, "t"), values);
  EXPECT_EQ(checkpoint->tensor_bytes_read(), 2800000);
  const std::vector<Intervals> columns = {{{0, kRows}}, {{1, 999}}};
  EXPECT_EQ(ReadFloats(*checkpoint, "t", columns), SliceOf(values, {kRows, kColumns}, columns));
  EXPECT_EQ(checkpoint->tensor_bytes_read(), 2800000 + kRows * 998 * 4);
}

TEST(Checkpoint, ReadsFromManyThreads) {
  const auto checkpoint = OpenFixture("hf/llama");
  const std::vector<float> expected = ReadAll(*checkpoint, "lm_head.weight");
  const std::int64_t one = checkpoint->tensor_bytes_read();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) EXPECT_EQ(ReadAll(*checkpoint, "lm_head.weight"), expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(checkpoint->tensor_bytes_read(), 81 * one);
}

TEST(Checkpoint, RefusesWhatItCannotRead) {
  TemporaryFolder folder;
  WriteFile(folder.path() / "model.safetensors",
            Safetensors(R"({"ids":{"dtype":"I64","shape":[2],"data_offsets":[0,16]}})", 16));
  WriteFile(folder.path() / "config.json", "{}");
  const auto checkpoint = *Checkpoint::Open(folder.path());
  float out[2];
  EXPECT_THAT(std::string(checkpoint->ReadWhole("ids", DType::kF32, out).message()),
              HasSubstr("\"ids\" has dtype I64, which cannot be read as floats"));
  EXPECT_THAT(std::string(checkpoint->ReadWhole("x", DType::kF32, out).message()), HasSubstr("no tensor \"x\""));
  const std::vector<Intervals> too_far = {{{0, 3}}};
  EXPECT_THAT(std::string(checkpoint->Read("ids", too_far, DType::kF32, out).message()), HasSubstr("interval [0, 3)"));
}

TEST(Checkpoint, FileThatShrinksIsAnError) {
  TemporaryFolder folder;
  const auto path = folder.path() / "model.safetensors";
  WriteFile(path, Safetensors(R"({"t":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", 16));
  WriteFile(folder.path() / "config.json", "{}");
  const auto checkpoint = *Checkpoint::Open(folder.path());
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 5);
  float out[4];
  EXPECT_THAT(std::string(checkpoint->ReadWhole("t", DType::kF32, out).message()), HasSubstr("has shrunk"));
}

TEST(Checkpoint, GgufTokenizerAndIdsThatStop) {
  const auto gguf = OpenFixture("gguf/mixed.gguf");
  const GgufTokenizerMetadata* tokenizer = gguf->gguf_tokenizer();
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->model, "gpt2");
  EXPECT_EQ(tokenizer->pre, "smollm");
  EXPECT_EQ(tokenizer->tokens.size(), 12u);
  EXPECT_THAT(tokenizer->merges, ElementsAre("a b", "Ġ a", "b a"));
  EXPECT_EQ(tokenizer->eos_id, 2u);
  EXPECT_EQ(tokenizer->eot_id, std::nullopt);
  EXPECT_EQ(tokenizer->add_bos, false);
  EXPECT_EQ(tokenizer->add_eos, std::nullopt);
  EXPECT_EQ(tokenizer->chat_template, "{{ messages[0].content }}");
  // 6 is <|endoftext|>, a control token; 7 reads <|eot_id|> but is ordinary text in this vocabulary.
  EXPECT_EQ(gguf->generation_config(), nlohmann::json::parse(R"({"eos_token_id": [2, 6], "bos_token_id": 1})"));
}

TEST(Checkpoint, FolderHasNoGgufTokenizer) {
  const auto folder = OpenFixture("hf/llama");
  EXPECT_EQ(folder->gguf_tokenizer(), nullptr);
  EXPECT_EQ(folder->config().at("model_type"), "llama");
  EXPECT_EQ(folder->generation_config().at("eos_token_id"), 2);
  EXPECT_EQ(OpenFixture("gguf/llama_bias.gguf")->gguf_tokenizer(), nullptr);
}

}  // namespace
}  // namespace trireme::sharding
