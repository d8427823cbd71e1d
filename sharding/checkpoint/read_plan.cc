#include "sharding/checkpoint/read_plan.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "sharding/checkpoint/error_text.h"

namespace trireme::sharding {
namespace {

// Where row `row` of Hugging Face's order lies in a file that interleaves the halves of each head.
std::int64_t InterleavedRow(std::int64_t row, std::int64_t head_rows) {
  const std::int64_t within = row % head_rows;
  const std::int64_t half = head_rows / 2;
  return row - within + (within < half ? 2 * within : 2 * (within - half) + 1);
}

// Walks the slice in row-major order and joins neighbours.
class Planner {
 public:
  Planner(const TensorInfo& tensor, std::span<const Intervals> slices) : tensor_(tensor), slices_(slices) {}

  std::vector<ElementRun> Plan() && {
    if (slices_.empty()) {
      Add(0, 1);
    } else {
      Visit(0, 0);
    }
    return std::move(runs_);
  }

 private:
  // `base`: flattened index, in units of dimension `dim`, of what the outer indices select.
  void Visit(std::size_t dim, std::int64_t base) {
    const bool is_last = dim + 1 == slices_.size();
    const bool is_interleaved = dim == 0 && tensor_.interleaved_head_rows.has_value();
    for (const Interval& interval : slices_[dim]) {
      if (is_last && !is_interleaved) {
        Add(base + interval.begin, interval.size());
        continue;
      }
      for (std::int64_t i = interval.begin; i < interval.end; ++i) {
        const std::int64_t at = base + (is_interleaved ? InterleavedRow(i, *tensor_.interleaved_head_rows) : i);
        if (is_last) {
          Add(at, 1);
        } else {
          Visit(dim + 1, at * tensor_.shape[dim + 1]);
        }
      }
    }
  }

  void Add(std::int64_t in_file, std::int64_t count) {
    if (count == 0) return;
    if (!runs_.empty() && runs_.back().in_file + runs_.back().count == in_file) {
      runs_.back().count += count;
    } else {
      runs_.push_back({.in_file = in_file, .in_slice = in_slice_, .count = count});
    }
    in_slice_ += count;
  }

  const TensorInfo& tensor_;
  const std::span<const Intervals> slices_;
  std::vector<ElementRun> runs_;
  std::int64_t in_slice_ = 0;
};

std::string ToString(const Interval& interval) {
  std::ostringstream out;
  out << interval;
  return out.str();
}

bool IsEmpty(const Intervals& intervals) { return TotalSize(intervals) == 0; }

}  // namespace

absl::Status CheckSlices(const TensorInfo& tensor, std::span<const Intervals> slices) {
  if (slices.size() != tensor.shape.size()) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(tensor.name), " has shape ",
                                                   ShapeToString(tensor.shape), ", but slices of ", slices.size(),
                                                   " dimensions were asked for"));
  }
  for (std::size_t d = 0; d < slices.size(); ++d) {
    std::int64_t from = 0;
    for (const Interval& interval : slices[d]) {
      if (interval.begin < from || interval.end < interval.begin || interval.end > tensor.shape[d]) {
        return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(tensor.name), ", dimension ", d, ": interval ",
                                                       ToString(interval), " is not within [", from, ", ",
                                                       tensor.shape[d], "); intervals must be ascending and disjoint"));
      }
      from = interval.end;
    }
  }
  return absl::OkStatus();
}

std::vector<ElementRun> PlanRead(const TensorInfo& tensor, std::span<const Intervals> slices) {
  // Asked first, since the walk is not short where an outer dimension is huge and an inner one empty.
  if (std::any_of(slices.begin(), slices.end(), IsEmpty)) return {};
  std::vector<ElementRun> runs = Planner(tensor, slices).Plan();
  if (tensor.interleaved_head_rows.has_value()) {
    std::sort(runs.begin(), runs.end(), [](const ElementRun& a, const ElementRun& b) { return a.in_file < b.in_file; });
  }
  return runs;
}

}  // namespace trireme::sharding
