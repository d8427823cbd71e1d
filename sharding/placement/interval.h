// A half-open range of elements along one axis.
#pragma once
#include <cstdint>
#include <ostream>
#include <vector>

namespace trireme::sharding {

struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;  // >= begin

  std::int64_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  friend bool operator==(const Interval&, const Interval&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Interval& i) {
    return out << "[" << i.begin << ", " << i.end << ")";
  }
};

// Ascending and disjoint: what a rank holds of an axis, in the order in which it lies there locally.
using Intervals = std::vector<Interval>;

inline std::int64_t TotalSize(const Intervals& intervals) {
  std::int64_t total = 0;
  for (const Interval& interval : intervals) total += interval.size();
  return total;
}

}  // namespace trireme::sharding
