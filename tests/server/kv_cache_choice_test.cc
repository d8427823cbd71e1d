#include "server/kv_cache_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace trireme::server {
namespace {

using sharding::DType;
using ::testing::AllOf;
using ::testing::HasSubstr;

// 1024 positions; keys and values of a token in float32: 2 layers of 2 KV heads of 16 numbers.
constexpr std::uint32_t kModelLength = 1024;
constexpr std::uint64_t kBytesPerToken = 2 * 2 * 2 * 16 * 4;
constexpr std::uint32_t kBlockTokens = 16;
constexpr std::uint64_t kBytesPerBlock = kBytesPerToken * kBlockTokens;
constexpr std::uint64_t kBytesForFullLength = kBytesPerBlock * kModelLength / kBlockTokens;

const sharding::Model& TinyModel() {
  static const sharding::Model* const model = new sharding::Model(
      *sharding::OpenModel(TRIREME_FIXTURES "/hf/text_llama", sharding::StrategyRegistry::BuiltIn()));
  return *model;
}

absl::StatusOr<KvCacheChoice> Choose(const ServerOptions& options, DType dtype = DType::kF32) {
  return ChooseKvCache(TinyModel(), options, dtype, kBlockTokens);
}

ServerOptions WithMemory(std::uint64_t bytes) {
  ServerOptions options;
  options.kv_cache_memory = ByteSize{bytes};
  return options;
}

std::string Refusal(const ServerOptions& options) {
  const absl::Status status = Choose(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(ChooseKvCache, TakesTheModelsLengthAndWhatAllRequestsCanFillByDefault) {
  ServerOptions options;
  options.max_num_seqs = 3;
  const KvCacheChoice choice = *Choose(options);
  EXPECT_EQ(choice.max_model_len, kModelLength);
  EXPECT_EQ(choice.bytes_per_rank, 3 * kBytesForFullLength);
  EXPECT_EQ(Choose(options, DType::kBF16)->bytes_per_rank, 3 * kBytesForFullLength / 2);
  options.tp_degree = 2;
  EXPECT_EQ(Choose(options)->bytes_per_rank, 3 * kBytesForFullLength / 2);
}

TEST(ChooseKvCache, TakesAGibibyteAtMostByDefault) {
  ServerOptions options;
  options.max_num_seqs = 4096;
  EXPECT_EQ(Choose(options)->bytes_per_rank, std::uint64_t{1} << 30);
  options.tp_degree = 2;
  EXPECT_EQ(Choose(options)->bytes_per_rank, std::uint64_t{1} << 29);
}

TEST(ChooseKvCache, LowersTheModelsLengthToWhatTheMemoryHolds) {
  // The last token of a request takes no place: nothing is computed from it.
  for (const std::uint64_t blocks : {1u, 2u, 5u, 63u}) {
    for (const std::uint64_t rest : {std::uint64_t{0}, std::uint64_t{1}, kBytesPerBlock - 1}) {
      const KvCacheChoice choice = *Choose(WithMemory(blocks * kBytesPerBlock + rest));
      EXPECT_EQ(choice.max_model_len, blocks * kBlockTokens + 1) << rest;
      EXPECT_EQ(choice.bytes_per_rank, blocks * kBytesPerBlock + rest);
    }
  }
  EXPECT_EQ(Choose(WithMemory(kBytesForFullLength))->max_model_len, kModelLength);
  EXPECT_EQ(Choose(WithMemory(UINT64_MAX))->max_model_len, kModelLength);
}

TEST(ChooseKvCache, HoldsTwiceAsMuchOnTwoRanks) {
  ServerOptions options = WithMemory(kBytesPerBlock);
  options.tp_degree = 2;
  EXPECT_EQ(Choose(options)->max_model_len, 2 * kBlockTokens + 1);
}

TEST(ChooseKvCache, RefusesALengthAskedForThatTheMemoryDoesNotHold) {
  ServerOptions options = WithMemory(2 * kBytesPerBlock);
  options.max_model_len = 34;
  EXPECT_EQ(Refusal(options),
            "--max-model-len is 34, but --kv-cache-memory of 16384 bytes on each rank holds requests of at most 33 "
            "tokens: give --kv-cache-memory 24576 or more, or --max-model-len 33 or less");
  options.max_model_len = 33;
  EXPECT_EQ(Choose(options)->max_model_len, 33u);
  options.max_model_len = 34;
  options.kv_cache_memory = ByteSize{24576};
  EXPECT_EQ(Choose(options)->max_model_len, 34u);
}

TEST(ChooseKvCache, RefusesMemoryForLessThanABlock) {
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, kBytesPerBlock - 1}) {
    EXPECT_THAT(Refusal(WithMemory(bytes)),
                AllOf(HasSubstr("--kv-cache-memory of " + std::to_string(bytes) + " bytes"), HasSubstr("8192 bytes")));
  }
}

TEST(ChooseKvCache, RefusesALengthThatIsNone) {
  ServerOptions options;
  for (const std::uint32_t length : {0u, 1u, kModelLength + 1, UINT32_MAX}) {
    options.max_model_len = length;
    EXPECT_EQ(Refusal(options), "--max-model-len is " + std::to_string(length) +
                                    "; expected from 2 (a token of prompt and one of output) to 1024 (what the model "
                                    "was made for)");
  }
  options.max_model_len = 2;
  EXPECT_EQ(Choose(options)->max_model_len, 2u);
}

}  // namespace
}  // namespace trireme::server
