#include "sharding/program/attention_heads.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace trireme::sharding {
namespace {

// Indices of the heads that intervals of elements cover.
std::vector<std::int64_t> HeadsIn(const Intervals& intervals, int head_dim) {
  std::vector<std::int64_t> heads;
  for (const Interval& interval : intervals) {
    for (std::int64_t head = interval.begin / head_dim; head < interval.end / head_dim; ++head) heads.push_back(head);
  }
  return heads;
}

bool QueriesMeetTheirKeys(const std::vector<std::int64_t>& queries, const std::vector<std::int64_t>& keys,
                          std::int64_t queries_per_key) {
  if (queries.empty() || keys.empty() || queries.size() % keys.size() != 0) return false;
  const std::size_t local_queries_per_key = queries.size() / keys.size();
  for (std::size_t i = 0; i < queries.size(); ++i) {
    if (queries[i] / queries_per_key != keys[i / local_queries_per_key]) return false;
  }
  return true;
}

}  // namespace

bool HoldsWholeHeads(const Layout& layout, int head_dim) {
  if (!layout.is_cut()) return true;
  const auto is_whole = [&](const Interval& interval) {
    return interval.begin % head_dim == 0 && interval.end % head_dim == 0;
  };
  return std::all_of(layout.parts->begin(), layout.parts->end(), [&](const Intervals& intervals) {
    return std::all_of(intervals.begin(), intervals.end(), is_whole);
  });
}

absl::Status CheckHeads(const AttentionOp& attention, const Layout& queries, const Layout& keys, int world) {
  if (!queries.is_cut()) return absl::OkStatus();
  if (!HoldsWholeHeads(queries, attention.head_dim) || !HoldsWholeHeads(keys, attention.head_dim)) {
    return absl::InvalidArgumentError("attention needs whole heads on each rank");
  }
  for (int rank = 0; rank < world; ++rank) {
    if (QueriesMeetTheirKeys(HeadsIn((*queries.parts)[rank], attention.head_dim),
                             HeadsIn((*keys.parts)[rank], attention.head_dim),
                             attention.num_heads / attention.num_kv_heads)) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat("the ", attention.num_heads, " query heads and ",
                                                   attention.num_kv_heads, " KV heads, cut for ", world,
                                                   " ranks, do not meet on rank ", rank));
  }
  return absl::OkStatus();
}

}  // namespace trireme::sharding
