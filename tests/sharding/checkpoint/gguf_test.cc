#include "sharding/checkpoint/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/sharding/checkpoint/checkpoint_files.h"

namespace trireme::sharding {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<GgufHeader> Parse(const std::string& bytes) { return ParseGguf(InMemory(bytes)); }

// Of a file with one key `answer` and one tensor `w` of [2, 32] Q8_0. A test changes one field.
struct SmallFile {
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::uint64_t num_tensors = 1;
  std::uint64_t num_pairs = 1;
  std::string pairs = BytesBuilder().String("answer").Add(std::uint32_t{4}).Add(std::uint32_t{42}).bytes();
  std::string name = "w";
  std::vector<std::uint64_t> dimensions = {32, 2};
  std::uint32_t type = 8;
  std::uint64_t offset = 0;
  std::string more_infos = {};
  std::size_t data_bytes = 68;

  std::string Bytes() const {
    BytesBuilder out;
    out.Raw(magic).Add(version).Add(num_tensors).Add(num_pairs).Raw(pairs);
    out.String(name).Add(static_cast<std::uint32_t>(dimensions.size()));
    for (const std::uint64_t dimension : dimensions) out.Add(dimension);
    out.Add(type).Add(offset).Raw(more_infos);
    return out.PadTo(32).Raw(std::string(data_bytes, '\0')).bytes();
  }
};

std::string PairOf(const std::string& key, std::uint32_t type, const std::string& value) {
  return BytesBuilder().String(key).Add(type).Raw(value).bytes();
}

std::string U32(std::uint32_t value) { return BytesBuilder().Add(value).bytes(); }
std::string U64(std::uint64_t value) { return BytesBuilder().Add(value).bytes(); }

TEST(ParseGguf, ReadsMetadataAndTensors) {
  const auto header = Parse(SmallFile().Bytes());
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->version, 3u);
  EXPECT_EQ(*header->metadata.Get<std::uint32_t>("answer"), 42u);
  ASSERT_EQ(header->tensors.size(), 1u);
  const TensorInfo& tensor = header->tensors[0];
  EXPECT_EQ(tensor.name, "w");
  EXPECT_EQ(tensor.dtype, DType::kQ8_0);
  EXPECT_THAT(tensor.shape, ElementsAre(2, 32));
  EXPECT_EQ(tensor.byte_size, 68);
  EXPECT_EQ(tensor.byte_offset, header->data_offset);
  EXPECT_EQ(header->data_offset % 32, 0);
}

TEST(ParseGguf, ReadsEveryTypeOfValue) {
  BytesBuilder pairs;
  pairs.String("u8").Add(std::uint32_t{0}).Add(std::uint8_t{200});
  pairs.String("i8").Add(std::uint32_t{1}).Add(std::int8_t{-3});
  pairs.String("u16").Add(std::uint32_t{2}).Add(std::uint16_t{50000});
  pairs.String("i16").Add(std::uint32_t{3}).Add(std::int16_t{-300});
  pairs.String("i32").Add(std::uint32_t{5}).Add(std::int32_t{-70000});
  pairs.String("f32").Add(std::uint32_t{6}).Add(1.5f);
  pairs.String("bool").Add(std::uint32_t{7}).Add(std::uint8_t{1});
  pairs.String("string").Add(std::uint32_t{8}).String("text");
  pairs.String("u64").Add(std::uint32_t{10}).Add(std::uint64_t{1} << 40);
  pairs.String("i64").Add(std::uint32_t{11}).Add(-(std::int64_t{1} << 40));
  pairs.String("f64").Add(std::uint32_t{12}).Add(0.1);
  pairs.String("i32s")
      .Add(std::uint32_t{9})
      .Add(std::uint32_t{5})
      .Add(std::uint64_t{2})
      .Add(std::int32_t{-1})
      .Add(std::int32_t{7});
  pairs.String("strings").Add(std::uint32_t{9}).Add(std::uint32_t{8}).Add(std::uint64_t{2}).String("a").String("");
  pairs.String("bools").Add(std::uint32_t{9}).Add(std::uint32_t{7}).Add(std::uint64_t{2}).Raw(std::string("\1\0", 2));
  pairs.String("none").Add(std::uint32_t{9}).Add(std::uint32_t{6}).Add(std::uint64_t{0});
  const auto header = Parse(SmallFile{.num_pairs = 15, .pairs = pairs.bytes()}.Bytes());
  ASSERT_TRUE(header.ok()) << header.status();
  const GgufMetadata& metadata = header->metadata;
  EXPECT_EQ(*metadata.Get<std::uint8_t>("u8"), 200);
  EXPECT_EQ(*metadata.Get<std::int8_t>("i8"), -3);
  EXPECT_EQ(*metadata.Get<std::uint16_t>("u16"), 50000);
  EXPECT_EQ(*metadata.Get<std::int16_t>("i16"), -300);
  EXPECT_EQ(*metadata.Get<std::int32_t>("i32"), -70000);
  EXPECT_EQ(*metadata.Get<float>("f32"), 1.5f);
  EXPECT_EQ(*metadata.Get<bool>("bool"), true);
  EXPECT_EQ(*metadata.Get<std::string>("string"), "text");
  EXPECT_EQ(*metadata.Get<std::uint64_t>("u64"), std::uint64_t{1} << 40);
  EXPECT_EQ(*metadata.Get<std::int64_t>("i64"), -(std::int64_t{1} << 40));
  EXPECT_EQ(*metadata.Get<double>("f64"), 0.1);
  EXPECT_THAT(*metadata.Get<std::vector<std::int32_t>>("i32s"), ElementsAre(-1, 7));
  EXPECT_THAT(*metadata.Get<std::vector<std::string>>("strings"), ElementsAre("a", ""));
  EXPECT_THAT(*metadata.Get<std::vector<bool>>("bools"), ElementsAre(true, false));
  EXPECT_THAT(*metadata.Get<std::vector<float>>("none"), ElementsAre());
}

TEST(GgufMetadata, SaysWhatIsMissingOrOfAnotherType) {
  GgufMetadata metadata;
  EXPECT_TRUE(metadata.Insert("n", std::uint32_t{1}));
  EXPECT_FALSE(metadata.Insert("n", std::uint32_t{2}));
  EXPECT_TRUE(metadata.Insert("list", std::vector<std::string>{"a"}));
  const auto message = [](const auto& result) { return std::string(result.status().message()); };
  EXPECT_EQ(message(metadata.Get<float>("x")), "metadata key \"x\" is missing");
  EXPECT_EQ(message(metadata.Get<float>("n")), "metadata key \"n\" has type u32, expected f32");
  EXPECT_EQ(message(metadata.Find<std::vector<float>>("list")),
            "metadata key \"list\" has type array of string, expected array of f32");
  EXPECT_EQ(*metadata.Find<float>("x"), std::nullopt);
  EXPECT_EQ(*metadata.GetOr<float>("x", 2.0f), 2.0f);
  EXPECT_EQ(*metadata.GetOr<std::uint32_t>("n", 9), 1u);
  EXPECT_FALSE(metadata.GetOr<std::int32_t>("n", 9).ok());
}

TEST(ParseGguf, AcceptsVersion2ScalarsAndNoTensors) {
  EXPECT_TRUE(Parse(SmallFile{.version = 2}.Bytes()).ok());
  EXPECT_TRUE(Parse(SmallFile{.dimensions = {}, .type = 0, .data_bytes = 4}.Bytes()).ok());
  EXPECT_TRUE(Parse(SmallFile{.dimensions = {0, 3}, .type = 0, .data_bytes = 0}.Bytes()).ok());
  EXPECT_TRUE(
      Parse(BytesBuilder().Raw("GGUF").Add(std::uint32_t{3}).Add(std::uint64_t{0}).Add(std::uint64_t{0}).bytes()).ok());
}

TEST(ParseGguf, UsesTheAlignmentOfTheFile) {
  const SmallFile file{.pairs = PairOf("general.alignment", 4, U32(256)), .data_bytes = 300};
  const auto header = Parse(file.Bytes());
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->data_offset, 256);
}

TEST(ParseGguf, SecondTensorBeginsAtThePaddedSum) {
  const auto second = [](std::uint64_t offset) {
    const std::string info = BytesBuilder()
                                 .String("v")
                                 .Add(std::uint32_t{1})
                                 .Add(std::uint64_t{3})
                                 .Add(std::uint32_t{0})
                                 .Add(offset)
                                 .bytes();
    return Parse(SmallFile{.num_tensors = 2, .more_infos = info, .data_bytes = 96 + 12}.Bytes());
  };
  ASSERT_TRUE(second(96).ok()) << second(96).status();
  EXPECT_EQ(second(96)->tensors[1].byte_offset, second(96)->data_offset + 96);
  for (const std::uint64_t offset : {0u, 68u, 64u, 128u}) {
    EXPECT_THAT(std::string(second(offset).status().message()), HasSubstr("expected 96")) << offset;
  }
}

TEST(ParseGguf, RefusesMalformedFilesByName) {
  const std::uint64_t huge = ~std::uint64_t{0};
  const struct {
    SmallFile file;
    const char* message;
  } cases[] = {
      {{.magic = "GGML"}, "not a GGUF file"},
      {{.version = 1}, "GGUF version 1 is not supported"},
      {{.version = 4}, "GGUF version 4 is not supported"},
      {{.version = 0x03000000}, "(big-endian?)"},
      {{.num_tensors = huge}, "the number of tensors is 18446744073709551615 at byte 8"},
      {{.num_tensors = 1000}, "the number of tensors is 1000 at byte 8"},
      {{.num_pairs = huge}, "the number of metadata keys is 18446744073709551615"},
      {{.num_pairs = 1000}, "the number of metadata keys is 1000"},
      {{.pairs = PairOf("", 4, U32(1))}, "metadata key 0 is empty"},
      {{.num_pairs = 2, .pairs = PairOf("a", 4, U32(1)) + PairOf("a", 4, U32(1))}, "metadata key \"a\" comes twice"},
      {{.pairs = U64(huge) + "abcdefgh"}, "a metadata key is 18446744073709551615"},
      {{.pairs = PairOf("a", 8, U64(1000))}, "a metadata string is 1000"},
      {{.pairs = PairOf("a", 13, U32(1))}, "metadata key \"a\": type 13 is not known"},
      {{.pairs = PairOf("a", 9, U32(13) + U64(0))}, "metadata key \"a\": element type 13 is not known"},
      {{.pairs = PairOf("a", 9, U32(9) + U64(0))}, "array of arrays"},
      {{.pairs = PairOf("a", 9, U32(10) + U64(std::uint64_t{1} << 61))},
       "a metadata array's count is 2305843009213693952"},
      {{.pairs = PairOf("a", 9, U32(0) + U64(huge))}, "a metadata array's count"},
      {{.pairs = PairOf("general.alignment", 4, U32(0))}, "general.alignment is 0, expected a power of two"},
      {{.pairs = PairOf("general.alignment", 4, U32(48))}, "general.alignment is 48, expected a power of two"},
      {{.pairs = PairOf("general.alignment", 10, U64(32))}, "\"general.alignment\" has type u64, expected u32"},
      {{.name = ""}, "tensor name \"\" has 0 bytes"},
      {{.name = std::string(64, 'x')}, "has 64 bytes, expected 1 to 63"},
      {{.dimensions = {1, 1, 1, 1, 1}, .type = 0}, "has 5 dimensions, at most 4"},
      {{.dimensions = {huge}, .type = 0}, "shape [-1] of F32 is negative"},
      {{.dimensions = {std::uint64_t{1} << 32, std::uint64_t{1} << 32}, .type = 0}, "too large"},
      {{.dimensions = {std::uint64_t{1} << 62}, .type = 0}, "too large"},
      {{.dimensions = {16, 4}},
       "shape [4, 16] of Q8_0 is negative, too large, or its rows are no multiple of the block of 32"},
      {{.offset = 32}, "tensor \"w\" has offset 32, expected 0"},
      {{.offset = huge}, "tensor \"w\" has offset -1, expected 0"},
      {{.data_bytes = 67}, "tensor \"w\" needs 68 bytes, only 67 are left: the file is cut short"},
      {{.num_tensors = 2,
        .more_infos =
            BytesBuilder().String("w").Add(std::uint32_t{0}).Add(std::uint32_t{0}).Add(std::uint64_t{96}).bytes()},
       "tensor \"w\" comes twice"},
  };
  for (const auto& refused : cases) {
    const auto parsed = Parse(refused.file.Bytes());
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << refused.message;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(refused.message));
  }
}

TEST(ParseGguf, RefusesWhatIsNotSupportedByName) {
  const struct {
    SmallFile file;
    const char* message;
  } cases[] = {
      {{.type = 10}, "tensor \"w\" has type Q2_K (10), which is not supported; supported: F32, F16, Q4_0"},
      {{.type = 39}, "MXFP4 (39)"},
      {{.type = 4000}, "unknown (4000)"},
      {{.num_pairs = 2,
        .pairs = PairOf("split.no", 2, std::string("\1\0", 2)) + PairOf("split.count", 2, std::string("\3\0", 2))},
       "part 2 of 3 of a split GGUF"},
  };
  for (const auto& refused : cases) {
    const auto parsed = Parse(refused.file.Bytes());
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kUnimplemented) << refused.message;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(refused.message));
  }
}

TEST(ParseGguf, EveryTruncationOfAFixtureIsRefused) {
  const std::string file = ReadFile(Fixture("gguf/mixed.gguf"));
  ASSERT_TRUE(Parse(file).ok());
  const auto end =
      static_cast<std::size_t>(Parse(file)->tensors.back().byte_offset + Parse(file)->tensors.back().byte_size);
  for (std::size_t size = 0; size < end; size += size < 4000 ? 1 : 997) {
    EXPECT_FALSE(Parse(file.substr(0, size)).ok()) << size;
  }
}

}  // namespace
}  // namespace trireme::sharding
