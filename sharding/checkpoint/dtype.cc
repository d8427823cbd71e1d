#include "sharding/checkpoint/dtype.h"

#include <iterator>

#include "base/check.h"

namespace trireme::sharding {
namespace {

constexpr DTypeTraits kTraits[] = {
    {"F64", 1, 8},     {"F32", 1, 4},      {"F16", 1, 2},         {"BF16", 1, 2},        {"I64", 1, 8},
    {"I32", 1, 4},     {"I16", 1, 2},      {"I8", 1, 1},          {"U64", 1, 8},         {"U32", 1, 4},
    {"U16", 1, 2},     {"U8", 1, 1},       {"BOOL", 1, 1},        {"C64", 1, 8},         {"F8_E4M3", 1, 1},
    {"F8_E5M2", 1, 1}, {"F8_E8M0", 1, 1},  {"F8_E4M3FNUZ", 1, 1}, {"F8_E5M2FNUZ", 1, 1}, {"F6_E2M3", 4, 3},
    {"F6_E3M2", 4, 3}, {"F4", 2, 1},       {"Q4_0", 32, 18},      {"Q4_1", 32, 20},      {"Q5_0", 32, 22},
    {"Q8_0", 32, 34},  {"Q4_K", 256, 144}, {"Q5_K", 256, 176},    {"Q6_K", 256, 210},
};
static_assert(std::size(kTraits) == static_cast<std::size_t>(DType::kQ6_K) + 1);

}  // namespace

const DTypeTraits& TraitsOf(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  CHECK_LT(index, std::size(kTraits));
  return kTraits[index];
}

bool IsReadable(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 || dtype >= DType::kQ4_0;
}

}  // namespace trireme::sharding
