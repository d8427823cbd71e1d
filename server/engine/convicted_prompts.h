// Prompts of requests that were convicted (suspects.h), so that who sends one again and again costs no workers any more.
//
// One conviction may be bad luck, and a prompt may be that of many; so it is refused only after the second.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "absl/time/time.h"

namespace trireme::server {

// Not thread-safe: the engine's thread owns it. All `now` are of one clock.
class ConvictedPrompts {
 public:
  static constexpr std::size_t kMaxConvictions = 16;  // that are remembered: the last
  static constexpr std::size_t kRefusedAfter = 2;     // convictions of equal prompts
  static constexpr absl::Duration kMemory = absl::Minutes(10);

  void Add(std::vector<std::uint32_t> prompt, absl::Time now);

  // Whether so many of the convictions that are remembered were for this prompt.
  bool Refuse(std::span<const std::uint32_t> prompt, absl::Time now) const;

 private:
  struct Conviction {
    absl::Time time;
    std::vector<std::uint32_t> prompt;
  };

  std::deque<Conviction> convictions_;  // the oldest first
};

}  // namespace trireme::server
