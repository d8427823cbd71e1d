#include "worker/single_rank_communicator.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/mutex.h"

namespace trireme::worker {
namespace {

class SingleRankCommunicator : public Communicator {
 public:
  sharding::Rank rank() const override { return {0, 1}; }

  absl::Status AllReduceSum(std::span<float>) override { return State(); }

  absl::Status AllGather(std::span<const std::byte> mine, std::span<const std::size_t> sizes,
                         std::span<std::byte> all) override {
    CHECK_EQ(sizes.size(), 1u);
    return CopyIfWell(mine, all);
  }

  absl::Status ReduceScatterSum(std::span<const float> data, std::span<const std::size_t> sizes,
                                std::span<float> mine) override {
    CHECK_EQ(sizes.size(), 1u);
    return CopyIfWell(data, mine);
  }

  absl::Status Broadcast(std::span<std::byte>, int root) override {
    CHECK_EQ(root, 0);
    return State();
  }

  absl::Status AllToAll(std::span<const std::byte> send, std::span<std::byte> receive) override {
    return CopyIfWell(send, receive);
  }

  absl::Status Barrier(std::optional<absl::Duration>) override { return State(); }

  void Abort(std::string_view reason) override {
    MutexLock lock(mutex_);
    if (state_.ok()) state_ = absl::AbortedError(absl::StrCat("collective was aborted: ", std::string(reason)));
  }

 private:
  absl::Status State() {
    MutexLock lock(mutex_);
    return state_;
  }

  template <typename T>
  absl::Status CopyIfWell(std::span<const T> from, std::span<T> to) {
    CHECK_EQ(from.size(), to.size());
    std::copy(from.begin(), from.end(), to.begin());
    return State();
  }

  Mutex mutex_;
  absl::Status state_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Communicator> MakeSingleRankCommunicator() { return std::make_unique<SingleRankCommunicator>(); }

}  // namespace trireme::worker
