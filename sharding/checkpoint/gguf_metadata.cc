#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sharding/checkpoint/error_text.h"
#include "sharding/checkpoint/gguf.h"

namespace trireme::sharding {
namespace {

// In the order of GgufValue's alternatives; the second twelve are arrays of the first.
constexpr const char* kTypeNames[] = {"u8",  "i8",   "u16",    "i16", "u32", "i32",
                                      "f32", "bool", "string", "u64", "i64", "f64"};
constexpr std::size_t kNumScalarTypes = std::size(kTypeNames);
static_assert(std::variant_size_v<GgufValue> == 2 * kNumScalarTypes);

}  // namespace

std::string GgufTypeName(const GgufValue& value) {
  const std::size_t index = value.index();
  if (index < kNumScalarTypes) return kTypeNames[index];
  return absl::StrCat("array of ", kTypeNames[index - kNumScalarTypes]);
}

const GgufValue* GgufMetadata::FindValue(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

bool GgufMetadata::Insert(std::string key, GgufValue value) {
  return values_.try_emplace(std::move(key), std::move(value)).second;
}

absl::Status GgufMetadata::Missing(std::string_view key) const {
  return absl::NotFoundError(absl::StrCat("metadata key ", Quoted(key), " is missing"));
}

absl::Status GgufMetadata::WrongType(std::string_view key, const GgufValue& got, const GgufValue& wanted) const {
  return absl::InvalidArgumentError(
      absl::StrCat("metadata key ", Quoted(key), " has type ", GgufTypeName(got), ", expected ", GgufTypeName(wanted)));
}

}  // namespace trireme::sharding
