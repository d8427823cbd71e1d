// An observer that remembers what it was told.
#pragma once
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "server/engine/request.h"

namespace trireme::server {

// Of a request with `n` sequences. Thread-safe. A call after the end, or a second end, is a test failure.
class Recorder final : public RequestObserver {
 public:
  // Says kStop once a sequence has `stops_after` tokens.
  explicit Recorder(std::uint32_t n = 1, std::size_t stops_after = SIZE_MAX)
      : stops_after_(stops_after), sequences_(n) {}

  void OnPromptLogprobs(std::span<const GeneratedToken> tokens) override {
    MutexLock lock(mutex_);
    EXPECT_FALSE(tokens.empty());
    EXPECT_TRUE(sequences_[0].tokens.empty()) << "log-probabilities of the prompt after the first token";
    EXPECT_EQ(num_ends_, 0) << "log-probabilities of the prompt after the end";
    prompt_logprobs_.insert(prompt_logprobs_.end(), tokens.begin(), tokens.end());
  }

  AfterTokens OnTokens(std::uint32_t index, std::span<const GeneratedToken> tokens) override {
    MutexLock lock(mutex_);
    Continuation& sequence = sequences_.at(index);
    EXPECT_TRUE(status_.ok() && !sequence.finish.has_value()) << "tokens after the end";
    EXPECT_FALSE(tokens.empty());
    for (const GeneratedToken& token : tokens) {
      sequence.tokens.push_back(token.token_id);
      last_ = token;
    }
    changed_.SignalAll();
    return sequence.tokens.size() >= stops_after_ ? AfterTokens::kStop : AfterTokens::kContinue;
  }

  void OnFinish(std::uint32_t index, const Finish& finish) override {
    MutexLock lock(mutex_);
    EXPECT_TRUE(status_.ok() && !sequences_.at(index).finish.has_value()) << "a second end";
    sequences_.at(index).finish = finish;
    num_ends_ += ++num_finished_ == sequences_.size();
    changed_.SignalAll();
  }

  void OnError(const absl::Status& status) override {
    MutexLock lock(mutex_);
    EXPECT_EQ(++num_ends_, 1);
    EXPECT_FALSE(status.ok());
    status_ = DeepCopy(status);
    changed_.SignalAll();
  }

  // Waits for the end of all; false if it does not come within 30 s.
  bool WaitForEnd() {
    MutexLock lock(mutex_);
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (num_ends_ == 0) {
      if (!changed_.WaitUntil(mutex_, deadline)) return num_ends_ > 0;
    }
    return true;
  }

  // The same for tokens of one sequence; false, too, if it ends with fewer.
  bool WaitForTokens(std::size_t count, std::uint32_t index = 0) {
    MutexLock lock(mutex_);
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    const Continuation& sequence = sequences_.at(index);
    while (sequence.tokens.size() < count && num_ends_ == 0 && !sequence.finish.has_value()) {
      if (!changed_.WaitUntil(mutex_, deadline)) break;
    }
    return sequence.tokens.size() >= count;
  }

  // 1 once all have finished, or an error has ended them.
  int num_ends() const {
    MutexLock lock(mutex_);
    return num_ends_;
  }
  std::vector<std::uint32_t> tokens(std::uint32_t index = 0) const {
    MutexLock lock(mutex_);
    return sequences_.at(index).tokens;
  }
  // Of any sequence.
  GeneratedToken last() const {
    MutexLock lock(mutex_);
    return last_;
  }
  std::vector<GeneratedToken> prompt_logprobs() const {
    MutexLock lock(mutex_);
    return prompt_logprobs_;
  }
  // OK if it has not ended, or not by an error.
  absl::Status status() const {
    MutexLock lock(mutex_);
    return DeepCopy(status_);
  }
  std::optional<Finish> finish(std::uint32_t index = 0) const {
    MutexLock lock(mutex_);
    return sequences_.at(index).finish;
  }

 private:
  struct Continuation {
    std::vector<std::uint32_t> tokens;
    std::optional<Finish> finish;
  };

  // ThreadSanitizer does not see the counter of references in Debian's Abseil, so a status that two threads share looks
  // like a race.
  static absl::Status DeepCopy(const absl::Status& status) {
    absl::Status copy(status.code(), status.message());
    status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { copy.SetPayload(url, payload); });
    return copy;
  }

  const std::size_t stops_after_;
  mutable Mutex mutex_;
  CondVar changed_;
  int num_ends_ ABSL_GUARDED_BY(mutex_) = 0;
  std::size_t num_finished_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Continuation> sequences_ ABSL_GUARDED_BY(mutex_);
  GeneratedToken last_ ABSL_GUARDED_BY(mutex_);
  std::vector<GeneratedToken> prompt_logprobs_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace trireme::server
