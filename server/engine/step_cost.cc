#include "server/engine/step_cost.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/check.h"

namespace trireme::server {
namespace {

using Point = StepCost::Point;

double SecondsOf(double tokens, const std::vector<Point>& points) {
  // Below what was measured: as much as with one token more, a step that was sent to find out; but of a step with
  // several prompt tokens in it only the share, lest what prompts take be allowed to more prompts.
  const auto after = std::find_if(points.begin(), points.end(), [&](const Point& p) { return p.tokens > tokens; });
  if (after == points.begin()) return after->seconds * std::min(1.0, (tokens + 1) / after->tokens);
  const Point& before = *std::prev(after);
  // Beyond what was measured: no more than the last point, since this is what others are measured by.
  if (after == points.end()) return before.seconds;
  const double slope = (after->seconds - before.seconds) / (after->tokens - before.tokens);
  return before.seconds + slope * (tokens - before.tokens);
}

// Goes up the lines from `begin`; beyond the last point time grows as tokens do, as if nothing were shared.
// REQUIRES: seconds >= begin.seconds.
double TokensWithin(double seconds, const Point& begin, const std::vector<Point>& points) {
  Point at = begin;
  for (const Point& point : points) {
    if (point.tokens <= at.tokens) continue;
    if (point.seconds > seconds) {
      return at.tokens + (point.tokens - at.tokens) * (seconds - at.seconds) / (point.seconds - at.seconds);
    }
    at = point;
  }
  return at.tokens * (seconds / std::max(at.seconds, begin.seconds));
}

}  // namespace

void StepCost::Observe(std::uint32_t num_tokens, absl::Duration duration) {
  ++num_steps_;
  if (num_tokens == 0 || duration <= absl::ZeroDuration()) return;
  std::deque<Observation>& same_size = by_size_[SizeOf(num_tokens)];
  const Point point{.tokens = static_cast<double>(num_tokens), .seconds = absl::ToDoubleSeconds(duration)};
  same_size.push_back({.step = num_steps_, .point = point});
  if (same_size.size() > kMaxPerSize) same_size.pop_front();
}

std::size_t StepCost::SizeOf(std::uint32_t num_tokens) {
  return static_cast<std::size_t>(std::bit_width(num_tokens)) - 1;
}

std::vector<Point> StepCost::PointsFor(std::uint32_t num_decodes) const {
  std::vector<Point> points;
  for (std::size_t size = 0; size < kNumSizes; ++size) {
    const std::uint64_t max_age = size <= SizeOf(num_decodes) ? kMaxAgeOfDecodes : kMaxAge;
    std::vector<Point> recent;
    for (const Observation& one : by_size_[size]) {
      if (num_steps_ - one.step < max_age) recent.push_back(one.point);
    }
    if (recent.empty()) continue;
    const auto median = recent.begin() + static_cast<std::ptrdiff_t>((recent.size() - 1) / 2);
    std::nth_element(recent.begin(), median, recent.end(), [](auto& a, auto& b) { return a.seconds < b.seconds; });
    points.push_back(*median);
  }
  return points;
}

std::uint32_t StepCost::PromptTokensBeside(std::uint32_t num_decodes, double max_stretch) const {
  CHECK_GT(num_decodes, 0u);
  CHECK_GE(max_stretch, 1.0);
  const std::vector<Point> points = PointsFor(num_decodes);
  const auto decodes = static_cast<double>(num_decodes);
  if (points.empty() || points.front().tokens > 2 * decodes) return 1;
  const Point alone{.tokens = decodes, .seconds = SecondsOf(decodes, points)};
  const double tokens = TokensWithin(max_stretch * alone.seconds, alone, points);
  constexpr double kMost = 1 << 30;  // as good as unbounded
  constexpr double kRounding = 1e-6;
  return static_cast<std::uint32_t>(std::clamp(tokens - decodes + kRounding, 1.0, kMost));
}

}  // namespace trireme::server
