// Whether queries find their keys and values on their own rank: a step of the layout compiler (compile.h).
#pragma once
#include "absl/status/status.h"
#include "sharding/program/layout.h"
#include "sharding/program/program.h"

namespace trireme::sharding {

// Each interval begins and ends at a multiple of `head_dim`. True for uncut layouts.
bool HoldsWholeHeads(const Layout& layout, int head_dim);

// On each rank the local query heads, in order and in equal groups, must meet the KV heads that they would
// meet in the whole model: query head h attends to KV head h / (num_heads / num_kv_heads). InvalidArgument
// says what is wrong. `queries` and `keys` are both cut, or neither is.
absl::Status CheckHeads(const AttentionOp& attention, const Layout& queries, const Layout& keys, int world);

}  // namespace trireme::sharding
