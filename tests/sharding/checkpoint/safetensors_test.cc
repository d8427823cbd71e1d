#include "sharding/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/sharding/checkpoint/checkpoint_files.h"

namespace trireme::sharding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

absl::StatusOr<SafetensorsHeader> Parse(const std::string& bytes) { return ParseSafetensors(InMemory(bytes)); }

std::string Entry(const std::string& fields) { return "{\"t\":{" + fields + "}}"; }

TEST(ParseSafetensors, ReadsTensorsInTheOrderOfTheirData) {
  const auto header = Parse(Safetensors(
      R"({"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},"__metadata__":{"format":"pt"},
          "a":{"data_offsets":[0,4],"shape":[],"dtype":"F32","more":[1,{"x":[]},"y"]}}   )",
      16));
  ASSERT_TRUE(header.ok()) << header.status();
  ASSERT_EQ(header->tensors.size(), 2u);
  const TensorInfo& a = header->tensors[0];
  const TensorInfo& b = header->tensors[1];
  EXPECT_EQ(a.name, "a");
  EXPECT_THAT(a.shape, IsEmpty());
  EXPECT_EQ(a.byte_offset, header->data_offset);
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.dtype, DType::kBF16);
  EXPECT_THAT(b.shape, ElementsAre(2, 3));
  EXPECT_EQ(b.byte_offset, header->data_offset + 4);
  EXPECT_EQ(b.byte_size, 12);
  EXPECT_THAT(header->metadata, ElementsAre(Pair("format", "pt")));
}

TEST(ParseSafetensors, AcceptsWhatTheReferenceAccepts) {
  const struct {
    const char* what;
    std::string bytes;
  } cases[] = {
      {"no tensors", Safetensors("{}", 0)},
      {"leading and trailing space", Safetensors("  {}  ", 0)},
      {"length no multiple of eight", Safetensors(Entry(R"("dtype":"U8","shape":[1],"data_offsets":[0,1])"), 1)},
      {"zero sizes", Safetensors(Entry(R"("dtype":"F32","shape":[0,5],"data_offsets":[0,0])"), 0)},
      {"empty tensors at one offset", Safetensors(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[4,4]},
          "b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
          "c":{"dtype":"F32","shape":[2,0],"data_offsets":[4,4]}})",
                                                  4)},
      {"packed floats", Safetensors(Entry(R"("dtype":"F4","shape":[3,2],"data_offsets":[0,3])"), 3)},
      {"six-bit floats", Safetensors(Entry(R"("dtype":"F6_E2M3","shape":[8],"data_offsets":[0,6])"), 6)},
      {"extra key", Safetensors(Entry(R"("x":null,"dtype":"I8","shape":[1],"data_offsets":[0,1])"), 1)},
  };
  for (const auto& accepted : cases)
    EXPECT_TRUE(Parse(accepted.bytes).ok()) << accepted.what << Parse(accepted.bytes).status();
}

TEST(ParseSafetensors, RefusesMalformedFilesByName) {
  const std::string number(20, '9');
  const struct {
    std::string bytes;
    const char* message;
  } cases[] = {
      {"", "at least 8 bytes, this one has 0"},
      {"1234567", "at least 8 bytes, this one has 7"},
      {BytesBuilder().Add(std::uint64_t{100'000'001}).bytes(), "header length 100000001 is above the limit"},
      {BytesBuilder().Add(~std::uint64_t{0}).bytes(), "header length 18446744073709551615 is above"},
      {BytesBuilder().Add(std::uint64_t{3}).Raw("{}").bytes(), "header length 3 goes beyond the file's 10 bytes"},
      {Safetensors("", 0), "not valid JSON"},
      {Safetensors("{", 0), "not valid JSON"},
      {Safetensors("{}x", 0), "not valid JSON"},
      {Safetensors(std::string("{}\0", 3), 0), "not valid JSON"},
      {Safetensors("{\"\xff\":1}", 0), "not valid JSON"},
      {Safetensors("[]", 0), "the header is a list, expected an object"},
      {Safetensors("null", 0), "the header is null"},
      {Safetensors(R"({"t":1})", 0), "tensor \"t\" is 1, expected an object"},
      {Safetensors(R"({"t":[]})", 0), "tensor \"t\" is a list, expected an object"},
      {Safetensors(Entry(""), 0), "tensor \"t\" has no dtype"},
      {Safetensors(Entry(R"("dtype":"F32","data_offsets":[0,0])"), 0), "tensor \"t\" has no shape"},
      {Safetensors(Entry(R"("dtype":"F32","shape":[0])"), 0), "tensor \"t\" has no data_offsets"},
      {Safetensors(Entry(R"("dtype":"F33","shape":[0],"data_offsets":[0,0])"), 0), "dtype \"F33\" is not known"},
      {Safetensors(Entry(R"("dtype":"Q4_0","shape":[0],"data_offsets":[0,0])"), 0), "dtype \"Q4_0\" is not known"},
      {Safetensors(Entry(R"("dtype":5)"), 0), "tensor \"t\" dtype is 5, expected a string"},
      {Safetensors(Entry(R"("dtype":"F32","dtype":"F32")"), 0), "tensor \"t\" dtype comes twice"},
      {Safetensors(Entry(R"("shape":[-1])"), 0), "tensor \"t\" shape is -1, expected an integer in [0, 2^63)"},
      {Safetensors(Entry(R"("shape":[1.0])"), 0), "shape is \"1.0\", expected an integer"},
      {Safetensors(Entry(R"("shape":[[1]])"), 0), "shape is a list, expected an integer"},
      {Safetensors(Entry(R"("shape":3)"), 0), "shape is 3, expected a list of integers"},
      {Safetensors(Entry("\"shape\":[" + number + "]"), 0), "expected an integer in [0, 2^63)"},
      {Safetensors(Entry(R"("shape":[9223372036854775808])"), 0), "shape is 9223372036854775808, expected an integer"},
      {Safetensors(Entry(R"("data_offsets":[0])"), 0), "data_offsets has 1 numbers, expected 2"},
      {Safetensors(Entry(R"("data_offsets":[0,1,2])"), 0), "data_offsets has more than 2 numbers"},
      {Safetensors(R"({"__metadata__":{"a":1}})", 0), "__metadata__ \"a\" is 1, expected a string"},
      {Safetensors(R"({"__metadata__":{"a":"1","a":"2"}})", 0), "__metadata__ \"a\" comes twice"},
      {Safetensors(R"({"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"t":{}})", 0), "tensor \"t\" comes twice"},
      {Safetensors(Entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), 4), "data_offsets [4, 0)"},
      {Safetensors(Entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), 7),
       "do not lie within the 7 bytes of data"},
      {Safetensors(Entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4),
       "shape [2] of F32 needs 8 bytes, data_offsets [0, 4) hold 4"},
      {Safetensors(Entry(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])"), 2), "needs no whole number of bytes"},
      {Safetensors(Entry(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])"), 0),
       "needs no whole number of bytes"},
      {Safetensors(Entry(R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0])"), 0), "needs no whole"},
      {Safetensors("{}", 3), "bytes [0, 3) of the data, of a file without tensors, belong to no tensor"},
      {Safetensors(Entry(R"("dtype":"U8","shape":[1],"data_offsets":[0,1])"), 2),
       "bytes [1, 2) of the data, after the last tensor, \"t\", belong to no tensor"},
      {Safetensors(Entry(R"("dtype":"U8","shape":[1],"data_offsets":[1,2])"), 2),
       "bytes [0, 1) of the data, before the first tensor, \"t\", belong to no tensor"},
      {Safetensors(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},
                       "b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                   3),
       "tensor \"b\": its data begins at 1, but tensor \"a\" ends at 2"},
      {Safetensors(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},
                       "b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
                   5),
       "bytes [2, 3) of the data, between tensors \"a\" and \"b\", belong to no tensor: the header lacks one"},
  };
  for (const auto& refused : cases) {
    const auto parsed = Parse(refused.bytes);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << refused.message;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(refused.message));
    EXPECT_THAT(std::string(parsed.status().message()), testing::StartsWith("test: "));
  }
}

TEST(ParseSafetensors, RefusesTooManyDimensions) {
  std::string shape = "1";
  for (int i = 0; i < 64; ++i) shape += ",1";
  const auto parsed = Parse(Safetensors(Entry("\"shape\":[" + shape + "]"), 0));
  EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("more than 64 numbers"));
}

TEST(ParseSafetensors, DeepNestingEndsAtOnce) {
  const std::string deep = "{\"t\":{\"x\":" + std::string(1'000'000, '[');
  EXPECT_FALSE(Parse(Safetensors(deep, 0)).ok());
  const std::string closed = deep + std::string(1'000'000, ']') + R"(,"dtype":"U8","shape":[0],"data_offsets":[0,0]}})";
  EXPECT_TRUE(Parse(Safetensors(closed, 0)).ok());
}

TEST(ParseSafetensors, EveryTruncationOfAFixtureIsRefused) {
  const std::string file = ReadFile(Fixture("hf/llama_bias/model.safetensors"));
  ASSERT_TRUE(Parse(file).ok());
  for (std::size_t size = 0; size < file.size(); size += size < 5000 ? 37 : 4999) {
    EXPECT_FALSE(Parse(file.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(Parse(file + '\0').ok());
}

}  // namespace
}  // namespace trireme::sharding
