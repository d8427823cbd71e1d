// How finely cheap loops are cut.
#pragma once
#include <algorithm>
#include <cstdint>

namespace trireme::kernels::cpu {

// The least number of rows worth another thread, where a row costs about `elements_per_row` simple
// operations: waking a thread takes some microseconds.
constexpr std::int64_t MinRows(std::int64_t elements_per_row) {
  constexpr std::int64_t kElements = 16384;
  return std::max<std::int64_t>(kElements / std::max<std::int64_t>(elements_per_row, 1), 1);
}

}  // namespace trireme::kernels::cpu
