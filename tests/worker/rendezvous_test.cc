// What happens when ranks do not come, diverge, or are aborted.
#include "worker/rendezvous.h"

#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/rank_harness.h"

namespace trireme::worker {
namespace {

using absl::StatusCode;
using test_support::RunRanks;
using test_support::RunRanksAlone;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

SharedMemoryOptions WithTimeout(absl::Duration timeout, absl::Duration spin = absl::ZeroDuration()) {
  return {.chunk_bytes = 4096, .timeout = timeout, .spin = spin};
}

TEST(Rendezvous, NamesTheRanksThatDoNotCome) {
  const auto results = RunRanksAlone(
      4,
      [](Communicator& communicator) -> absl::Status {
        RETURN_IF_ERROR(communicator.Barrier());
        if (communicator.rank().index % 2 == 1) return absl::OkStatus();  // 1 and 3 leave
        std::vector<float> data(576);
        return communicator.AllReduceSum(data);
      },
      WithTimeout(absl::Milliseconds(300)));
  for (int r : {0, 2}) {
    EXPECT_EQ(results[r].code(), StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(results[r].message()),
                AllOf(HasSubstr("rank 1 (last at 1), rank 3 (last at 1) did not arrive within 300ms at collective 2"),
                      HasSubstr("all-reduce of 576 floats"), Not(HasSubstr("rank 4"))));
  }
}

TEST(Rendezvous, WaitsNoLongerThanTheDeadline) {
  for (absl::Duration spin : {absl::ZeroDuration(), absl::Microseconds(200), absl::Seconds(50)}) {
    const absl::Time begun = absl::Now();
    RunRanksAlone(
        2,
        [](Communicator& communicator) {
          return communicator.rank().index == 0 ? communicator.Barrier() : absl::OkStatus();
        },
        WithTimeout(absl::Milliseconds(200), spin));
    EXPECT_GE(absl::Now() - begun, absl::Milliseconds(200));
    EXPECT_LT(absl::Now() - begun, absl::Seconds(5));
  }
}

TEST(Rendezvous, ABarrierMayBringItsOwnDeadline) {
  const auto results = RunRanks(
      2,
      [](Communicator& communicator) {
        if (communicator.rank().index == 1) std::this_thread::sleep_for(std::chrono::milliseconds(400));
        return communicator.Barrier(absl::Seconds(60));
      },
      WithTimeout(absl::Milliseconds(50)));
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

TEST(Rendezvous, StaysFailedAfterAnError) {
  const auto results = RunRanksAlone(
      2,
      [](Communicator& communicator) -> absl::Status {
        const bool comes_late = communicator.rank().index == 1;
        if (comes_late) std::this_thread::sleep_for(std::chrono::milliseconds(400));
        const absl::Status first = communicator.Barrier();
        if (comes_late) return absl::OkStatus();
        EXPECT_EQ(communicator.Barrier(), first);
        return first;
      },
      WithTimeout(absl::Milliseconds(100)));
  EXPECT_EQ(results[0].code(), StatusCode::kDeadlineExceeded);
}

TEST(Rendezvous, AbortWakesSleepersAndSpinnersAtOnce) {
  for (absl::Duration spin : {absl::ZeroDuration(), absl::Seconds(50)}) {
    const absl::Time begun = absl::Now();
    const auto results = RunRanksAlone(
        3,
        [](Communicator& communicator) {
          if (communicator.rank().index < 2) return communicator.Barrier();
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          communicator.Abort("rank 2 lost its connection");
          communicator.Abort("twice is once");
          return communicator.Barrier();
        },
        WithTimeout(absl::Seconds(60), spin));
    EXPECT_LT(absl::Now() - begun, absl::Seconds(20));
    for (const absl::Status& status : results) {
      EXPECT_EQ(status.code(), StatusCode::kAborted);
      EXPECT_THAT(std::string(status.message()), HasSubstr("rank 2 lost its connection"));
    }
  }
}

TEST(Rendezvous, AbortFromAnotherThreadEndsARunningSeries) {
  const auto results = RunRanksAlone(
      2,
      [](Communicator& communicator) -> absl::Status {
        std::thread other([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          if (communicator.rank().index == 0) communicator.Abort("the stream ended");
        });
        absl::Status status;
        while (status.ok()) status = communicator.Barrier();
        other.join();
        return status;
      },
      WithTimeout(absl::Seconds(60)));
  for (const absl::Status& status : results) EXPECT_EQ(status.code(), StatusCode::kAborted) << status;
}

TEST(Rendezvous, CutsAnAbortReasonThatIsTooLong) {
  const auto results = RunRanksAlone(1, [](Communicator& communicator) {
    communicator.Abort(std::string(5000, 'x'));
    return communicator.Barrier();
  });
  EXPECT_THAT(std::string(results[0].message()),
              AllOf(HasSubstr(std::string(500, 'x')), Not(HasSubstr(std::string(600, 'x')))));
}

TEST(Rendezvous, AbortsWithoutAReasonToo) {
  const auto results = RunRanksAlone(1, [](Communicator& communicator) {
    communicator.Abort({});
    return communicator.Barrier();
  });
  EXPECT_EQ(results[0], absl::AbortedError("collective 1 of rank 0 was aborted: "));
}

TEST(Rendezvous, TellsRanksThatDivergeInKind) {
  const auto results = RunRanksAlone(3, [](Communicator& communicator) {
    std::vector<float> data(8);
    return communicator.rank().index == 1 ? communicator.Barrier() : communicator.AllReduceSum(data);
  });
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(results[r].code(), StatusCode::kInternal);
    EXPECT_THAT(std::string(results[r].message()), AllOf(HasSubstr("barrier"), HasSubstr("all-reduce of 8 floats"),
                                                         HasSubstr("rank 1"), HasSubstr("collective 1")));
  }
}

TEST(Rendezvous, TellsRanksThatDivergeInSize) {
  const auto results = RunRanksAlone(2, [](Communicator& communicator) {
    std::vector<float> data(8 + communicator.rank().index);
    return communicator.AllReduceSum(data);
  });
  EXPECT_THAT(
      std::string(results[0].message()),
      HasSubstr("rank 1 has diverged: at collective 1 it is at all-reduce of 9 floats, rank 0 at all-reduce of 8"));
}

TEST(Rendezvous, TellsRanksThatDivergeInParts) {
  const auto results = RunRanksAlone(2, [](Communicator& communicator) {
    const std::size_t sizes[] = {4, 4}, swapped[] = {3, 5};
    std::vector<std::byte> mine(communicator.rank().index == 0 ? 4 : 5), all(8);
    return communicator.AllGather(mine, communicator.rank().index == 0 ? sizes : swapped, all);
  });
  EXPECT_THAT(std::string(results[1].message()), HasSubstr("in other parts"));
}

TEST(Rendezvous, SpinsOnlyWhereEveryRankHasACpu) {
  EXPECT_EQ(SpinThatSuits(10'000, 1), absl::ZeroDuration());
  EXPECT_EQ(SpinThatSuits(1, 10'000), absl::ZeroDuration());
  EXPECT_GT(SpinThatSuits(1, 1), absl::ZeroDuration());
}

TEST(CollectiveTimes, TellWhoWaitsForWhom) {
  std::array<CollectiveTimes, 3> times;
  const auto results = RunRanks(
      3,
      [&](Communicator& communicator) -> absl::Status {
        const int rank = communicator.rank().index;
        std::vector<float> data(3000);  // of several meetings
        for (int i = 0; i < 5; ++i) {
          if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
          RETURN_IF_ERROR(communicator.AllReduceSum(data));
        }
        times[rank] = communicator.times();
        return absl::OkStatus();
      },
      WithTimeout(absl::Seconds(60)));
  for (const absl::Status& status : results) ASSERT_TRUE(status.ok()) << status;
  for (const CollectiveTimes& of_rank : times) {
    EXPECT_EQ(of_rank.count, 5u);
    EXPECT_EQ(of_rank.wait + of_rank.lateness, times[0].wait + times[0].lateness) << "from the first to the last";
    EXPECT_GE(of_rank.total, of_rank.wait);
  }
  // Rank 1 sleeps after each collective that the others come from at the same time.
  EXPECT_GE(times[1].lateness, absl::Milliseconds(20));
  EXPECT_GE(times[0].wait + times[2].wait, absl::Milliseconds(20));
}

TEST(CollectiveTimes, AreZeroBeforeTheFirst) {
  const auto results = RunRanks(
      2,
      [](Communicator& communicator) {
        const CollectiveTimes times = communicator.times();
        EXPECT_EQ(times.count, 0u);
        EXPECT_EQ(times.total + times.wait + times.lateness, absl::ZeroDuration());
        return communicator.Barrier();
      },
      WithTimeout(absl::Seconds(60)));
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace trireme::worker
