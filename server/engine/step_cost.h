// How long steps take, learnt from those that were done, and so how many prompt tokens a step may take along without
// holding up the streams that decode in it.
//
// Time over tokens is kept as a few points, one for each power of two of tokens (the median of the last durations
// there), with straight lines between. A single line a + b · tokens was ruled out: products are padded and change from
// memory-bound to compute-bound, and an error of the line would never heal, while a point is measured anew where it is
// used. Points are forgotten after kMaxAge steps, and with them a time of trouble. What the decodes alone take is
// remembered for longer, since no step shows it while prompts join in each: one more row can cost as much as eight.
// What is not known is taken to be dear.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/time/time.h"

namespace trireme::server {

// Not thread-safe: the engine's thread owns it.
class StepCost {
 public:
  static constexpr std::uint64_t kMaxAge = 64;  // steps
  static constexpr std::uint64_t kMaxAgeOfDecodes = 1024;

  struct Point {
    double tokens = 0;
    double seconds = 0;
  };

  // A step of `num_tokens` in all took `duration`. A duration of zero says nothing.
  void Observe(std::uint32_t num_tokens, absl::Duration duration);

  // Prompt tokens that a step of `num_decodes` may take along so that it takes `max_stretch` times what the decodes
  // alone would; at least 1, so that prompts progress whatever it costs. While nothing is known of steps of the
  // decodes' size it is 1: that step is the measurement. REQUIRES: num_decodes > 0, max_stretch >= 1.
  std::uint32_t PromptTokensBeside(std::uint32_t num_decodes, double max_stretch) const;

 private:
  static constexpr std::size_t kNumSizes = 32;  // size i: tokens in [2^i, 2^(i+1))
  static constexpr std::size_t kMaxPerSize = 7;

  struct Observation {
    std::uint64_t step = 0;
    Point point;
  };

  static std::size_t SizeOf(std::uint32_t num_tokens);
  // The median of each size of which something recent is known, the smallest size first.
  std::vector<Point> PointsFor(std::uint32_t num_decodes) const;

  std::uint64_t num_steps_ = 0;
  std::array<std::deque<Observation>, kNumSizes> by_size_;  // the latest last
};

}  // namespace trireme::server
