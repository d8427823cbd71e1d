// An observer that remembers what it was told.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "server/engine/request.h"

namespace trireme::server {

// Thread-safe. A call after the end, or a second end, is a test failure.
class Recorder final : public RequestObserver {
 public:
  void OnPromptLogprobs(std::span<const GeneratedToken>) override { ADD_FAILURE() << "nobody asked for these"; }

  AfterTokens OnTokens(std::uint32_t index, std::span<const GeneratedToken> tokens) override {
    EXPECT_EQ(index, 0u);
    MutexLock lock(mutex_);
    EXPECT_EQ(num_ends_, 0) << "tokens after the end";
    EXPECT_FALSE(tokens.empty());
    for (const GeneratedToken& token : tokens) {
      tokens_.push_back(token.token_id);
      last_ = token;
    }
    changed_.SignalAll();
    return AfterTokens::kContinue;
  }

  void OnFinish(std::uint32_t index, const Finish& finish) override {
    EXPECT_EQ(index, 0u);
    MutexLock lock(mutex_);
    EXPECT_EQ(++num_ends_, 1);
    finish_ = finish;
    changed_.SignalAll();
  }

  void OnError(const absl::Status& status) override {
    MutexLock lock(mutex_);
    EXPECT_EQ(++num_ends_, 1);
    EXPECT_FALSE(status.ok());
    status_ = status;
    changed_.SignalAll();
  }

  // Waits for the end; false if it does not come within 30 s.
  bool WaitForEnd() {
    MutexLock lock(mutex_);
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (num_ends_ == 0) {
      if (!changed_.WaitUntil(mutex_, deadline)) return num_ends_ > 0;
    }
    return true;
  }

  // The same for tokens; false, too, if it ends with fewer.
  bool WaitForTokens(std::size_t count) {
    MutexLock lock(mutex_);
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (tokens_.size() < count && num_ends_ == 0) {
      if (!changed_.WaitUntil(mutex_, deadline)) break;
    }
    return tokens_.size() >= count;
  }

  int num_ends() const {
    MutexLock lock(mutex_);
    return num_ends_;
  }
  std::vector<std::uint32_t> tokens() const {
    MutexLock lock(mutex_);
    return tokens_;
  }
  GeneratedToken last() const {
    MutexLock lock(mutex_);
    return last_;
  }
  // OK if it has not ended, or not by an error.
  absl::Status status() const {
    MutexLock lock(mutex_);
    return status_;
  }
  std::optional<Finish> finish() const {
    MutexLock lock(mutex_);
    return finish_;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  int num_ends_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::uint32_t> tokens_ ABSL_GUARDED_BY(mutex_);
  GeneratedToken last_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::optional<Finish> finish_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace trireme::server
