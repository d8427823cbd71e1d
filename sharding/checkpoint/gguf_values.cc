#include "sharding/checkpoint/gguf_values.h"

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "sharding/checkpoint/error_text.h"

namespace trireme::sharding {
namespace {

constexpr std::uint32_t kTypeArray = 9;

// Calls visit.operator()<T>() with the C++ type of a scalar GGUF type; nothing for an id that is none.
template <typename Visitor>
std::optional<absl::StatusOr<GgufValue>> WithScalarType(std::uint32_t type, Visitor visit) {
  switch (type) {
    case 0:
      return visit.template operator()<std::uint8_t>();
    case 1:
      return visit.template operator()<std::int8_t>();
    case 2:
      return visit.template operator()<std::uint16_t>();
    case 3:
      return visit.template operator()<std::int16_t>();
    case 4:
      return visit.template operator()<std::uint32_t>();
    case 5:
      return visit.template operator()<std::int32_t>();
    case 6:
      return visit.template operator()<float>();
    case 7:
      return visit.template operator()<bool>();
    case 8:
      return visit.template operator()<std::string>();
    case 10:
      return visit.template operator()<std::uint64_t>();
    case 11:
      return visit.template operator()<std::int64_t>();
    case 12:
      return visit.template operator()<double>();
    default:
      return std::nullopt;
  }
}

template <typename T>
absl::StatusOr<T> ReadScalar(GgufCursor& cursor) {
  if constexpr (std::is_same_v<T, std::string>) {
    return cursor.ReadString("a metadata string");
  } else if constexpr (std::is_same_v<T, bool>) {
    ASSIGN_OR_RETURN(const auto byte, cursor.ReadNumber<std::uint8_t>("a metadata value"));
    return byte != 0;
  } else {
    return cursor.ReadNumber<T>("a metadata value");
  }
}

template <typename T>
absl::StatusOr<GgufValue> ReadArrayOf(GgufCursor& cursor) {
  constexpr std::int64_t kMinBytes = std::is_same_v<T, std::string> ? 8 : sizeof(T);
  ASSIGN_OR_RETURN(const std::int64_t count, cursor.ReadCount(kMinBytes, "a metadata array's count"));
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(T value, ReadScalar<T>(cursor));
    values.push_back(std::move(value));
  }
  return GgufValue(std::move(values));
}

absl::StatusOr<GgufValue> ReadValue(GgufCursor& cursor, const std::string& key) {
  ASSIGN_OR_RETURN(std::uint32_t type, cursor.ReadNumber<std::uint32_t>("a metadata type"));
  const bool is_array = type == kTypeArray;
  if (is_array) {
    ASSIGN_OR_RETURN(type, cursor.ReadNumber<std::uint32_t>("a metadata array's type"));
  }
  auto value = WithScalarType(type, [&]<typename T>() -> absl::StatusOr<GgufValue> {
    if (is_array) return ReadArrayOf<T>(cursor);
    ASSIGN_OR_RETURN(T scalar, ReadScalar<T>(cursor));
    return GgufValue(std::in_place_type<T>, std::move(scalar));
  });
  if (value.has_value()) return *std::move(value);
  return cursor.Malformed(absl::StrCat("metadata key ", Quoted(key), ": ", is_array ? "element " : "", "type ", type,
                                       type == kTypeArray ? " (array of arrays) is not supported" : " is not known"));
}

}  // namespace

absl::StatusOr<GgufMetadata> ReadGgufMetadata(GgufCursor& cursor, std::int64_t count) {
  GgufMetadata metadata;
  for (std::int64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(std::string key, cursor.ReadString("a metadata key"));
    if (key.empty()) return cursor.Malformed(absl::StrCat("metadata key ", i, " is empty"));
    ASSIGN_OR_RETURN(GgufValue value, ReadValue(cursor, key));
    if (!metadata.Insert(key, std::move(value))) {
      return cursor.Malformed(absl::StrCat("metadata key ", Quoted(key), " comes twice"));
    }
  }
  return metadata;
}

}  // namespace trireme::sharding
