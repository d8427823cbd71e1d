// Each collective against its definition, computed from all ranks' inputs.
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/rank_harness.h"
#include "worker/communicator.h"
#include "worker/single_rank_communicator.h"

namespace trireme::worker {
namespace {

using test_support::RunRanks;

struct Case {
  int world;
  std::size_t size;
};

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  return absl::StrCat("world", info.param.world, "_size", info.param.size);
}

// Chunks are 4,096 bytes: 20,011 elements take many, and 40,000 floats at world 9 are beyond the small sums.
std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (int world : {1, 2, 3, 4, 9}) {
    for (std::size_t size : {0, 1, 17, 1024, 20'011}) cases.push_back({world, size});
  }
  return cases;
}

std::vector<float> RandomFloats(std::size_t size, int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 10);
  std::vector<float> values(size);
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<float> SumInRankOrder(int world, std::size_t size) {
  std::vector<float> sum = RandomFloats(size, 0);
  for (int r = 1; r < world; ++r) {
    const std::vector<float> summand = RandomFloats(size, r);
    for (std::size_t i = 0; i < size; ++i) sum[i] += summand[i];
  }
  return sum;
}

// Uneven parts of `size`, some of them empty.
std::vector<std::size_t> UnevenSizes(int world, std::size_t size) {
  std::vector<std::size_t> sizes(world, 0);
  std::size_t left = size;
  for (int r = world - 1; r > 0; --r) {
    sizes[r] = r % 3 == 1 ? 0 : left / 2;
    left -= sizes[r];
  }
  sizes[0] = left;
  return sizes;
}

std::size_t BeginOf(const std::vector<std::size_t>& sizes, int rank) {
  return std::accumulate(sizes.begin(), sizes.begin() + rank, std::size_t{0});
}

absl::Status ExpectEqual(bool equal, Communicator& communicator) {
  if (equal) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("wrong result on rank ", communicator.rank().index));
}

void ExpectAllOk(const std::vector<absl::Status>& results) {
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

class Collectives : public testing::TestWithParam<Case> {
 protected:
  const int world_ = GetParam().world;
  const std::size_t size_ = GetParam().size;
};

TEST_P(Collectives, AllReduceAddsInRankOrderWithEqualBits) {
  const std::vector<float> expected = SumInRankOrder(world_, size_);
  ExpectAllOk(RunRanks(world_, [&](Communicator& communicator) -> absl::Status {
    std::vector<float> data = RandomFloats(size_, communicator.rank().index);
    RETURN_IF_ERROR(communicator.AllReduceSum(data));
    return ExpectEqual(data == expected, communicator);
  }));
}

TEST_P(Collectives, AllReduceInLargeChunksAddsInRankOrder) {
  const std::vector<float> expected = SumInRankOrder(world_, size_);
  auto body = [&](Communicator& communicator) -> absl::Status {
    std::vector<float> data = RandomFloats(size_, communicator.rank().index);
    RETURN_IF_ERROR(communicator.AllReduceSum(data));
    return ExpectEqual(data == expected, communicator);
  };
  ExpectAllOk(RunRanks(world_, body, {.chunk_bytes = 1 << 16, .timeout = absl::Seconds(60)}));
}

TEST_P(Collectives, AllGatherConcatenatesUnevenParts) {
  const std::vector<std::size_t> sizes = UnevenSizes(world_, size_);
  const std::vector<float> noise = RandomFloats(size_ / 4 + 1, 7);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(noise)).first(size_);
  const std::vector<std::byte> expected(bytes.begin(), bytes.end());
  ExpectAllOk(RunRanks(world_, [&](Communicator& communicator) -> absl::Status {
    const int rank = communicator.rank().index;
    std::vector<std::byte> all(size_);
    const std::span<const std::byte> mine = std::span(expected).subspan(BeginOf(sizes, rank), sizes[rank]);
    RETURN_IF_ERROR(communicator.AllGather(mine, sizes, all));
    return ExpectEqual(all == expected, communicator);
  }));
}

TEST_P(Collectives, ReduceScatterKeepsThePartOfTheRank) {
  const std::vector<std::size_t> sizes = UnevenSizes(world_, size_);
  const std::vector<float> sum = SumInRankOrder(world_, size_);
  ExpectAllOk(RunRanks(world_, [&](Communicator& communicator) -> absl::Status {
    const int rank = communicator.rank().index;
    std::vector<float> mine(sizes[rank]);
    RETURN_IF_ERROR(communicator.ReduceScatterSum(RandomFloats(size_, rank), sizes, mine));
    return ExpectEqual(std::equal(mine.begin(), mine.end(), sum.begin() + BeginOf(sizes, rank)), communicator);
  }));
}

TEST_P(Collectives, BroadcastGivesAllTheRootsData) {
  for (int root : {0, world_ - 1}) {
    const std::vector<float> expected = RandomFloats(size_, root);
    ExpectAllOk(RunRanks(world_, [&](Communicator& communicator) -> absl::Status {
      std::vector<float> data = RandomFloats(size_, communicator.rank().index);
      RETURN_IF_ERROR(communicator.Broadcast(std::as_writable_bytes(std::span(data)), root));
      return ExpectEqual(data == expected, communicator);
    }));
  }
}

// The element that rank `from` sends to rank `to` at place i.
std::uint32_t Message(int from, int to, std::size_t i) {
  return static_cast<std::uint32_t>((from * 16 + to) << 20 | i);
}

TEST_P(Collectives, AllToAllTransposesBlocks) {
  ExpectAllOk(RunRanks(world_, [&](Communicator& communicator) -> absl::Status {
    const int rank = communicator.rank().index;
    std::vector<std::uint32_t> send, expected, receive(world_ * size_);
    for (int other = 0; other < world_; ++other) {
      for (std::size_t i = 0; i < size_; ++i) {
        send.push_back(Message(rank, other, i));
        expected.push_back(Message(other, rank, i));
      }
    }
    RETURN_IF_ERROR(communicator.AllToAll(std::as_bytes(std::span(send)), std::as_writable_bytes(std::span(receive))));
    return ExpectEqual(receive == expected, communicator);
  }));
}

INSTANTIATE_TEST_SUITE_P(Sizes, Collectives, testing::ValuesIn(AllCases()), CaseName);

TEST(CollectivesInARow, StayRightTenThousandTimes) {
  constexpr int kWorld = 3;
  ExpectAllOk(RunRanks(kWorld, [](Communicator& communicator) -> absl::Status {
    const int rank = communicator.rank().index;
    for (int i = 0; i < 10'000; ++i) {
      std::vector<float> data(i % 37, static_cast<float>(rank + i));
      RETURN_IF_ERROR(communicator.AllReduceSum(data));
      const std::vector<float> expected(i % 37, static_cast<float>(3 + 3 * i));
      RETURN_IF_ERROR(ExpectEqual(data == expected, communicator));

      int from_root = rank == i % kWorld ? i : -1;
      RETURN_IF_ERROR(communicator.Broadcast(std::as_writable_bytes(std::span(&from_root, 1)), i % kWorld));
      RETURN_IF_ERROR(ExpectEqual(from_root == i, communicator));
    }
    return absl::OkStatus();
  }));
}

TEST(SingleRank, KeepsSumsAndCopiesTheRest) {
  const auto communicator = MakeSingleRankCommunicator();
  std::vector<float> data = {1, 2, 3}, copy(3);
  const std::size_t floats[] = {3}, bytes[] = {12};
  EXPECT_TRUE(communicator->AllReduceSum(data).ok());
  EXPECT_THAT(data, testing::ElementsAre(1, 2, 3));
  EXPECT_TRUE(communicator->ReduceScatterSum(data, floats, copy).ok());
  EXPECT_EQ(copy, data);
  copy.assign(3, 0);
  const auto bytes_of_copy = std::as_writable_bytes(std::span(copy));
  EXPECT_TRUE(communicator->AllGather(std::as_bytes(std::span(data)), bytes, bytes_of_copy).ok());
  EXPECT_EQ(copy, data);
  EXPECT_TRUE(communicator->Barrier().ok());
  communicator->Abort("the test says so");
  EXPECT_EQ(communicator->Barrier().code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace trireme::worker
