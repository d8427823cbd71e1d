// The header of a GGUF file: typed metadata and a table of tensors.
//
// As strict as llama.cpp (no holes and no reordering in the data, no key or name twice), with lengths and
// counts checked against the bytes that are left before any memory is set aside. Versions 2 and 3,
// little-endian. Names and shapes of Hugging Face are gguf_llama.h's concern.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "sharding/checkpoint/byte_source.h"
#include "sharding/checkpoint/tensor_info.h"

namespace trireme::sharding {

// One value of the metadata, of the C++ type that its GGUF type has.
using GgufValue =
    std::variant<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t, std::int32_t, float, bool,
                 std::string, std::uint64_t, std::int64_t, double, std::vector<std::uint8_t>, std::vector<std::int8_t>,
                 std::vector<std::uint16_t>, std::vector<std::int16_t>, std::vector<std::uint32_t>,
                 std::vector<std::int32_t>, std::vector<float>, std::vector<bool>, std::vector<std::string>,
                 std::vector<std::uint64_t>, std::vector<std::int64_t>, std::vector<double>>;

// Metadata by key.
class GgufMetadata {
 public:
  // Null if there is no such key.
  const GgufValue* FindValue(std::string_view key) const;

  // The value of `key` if it has exactly the type T (an alternative of GgufValue); InvalidArgument that names
  // key and types if it has another. If there is no such key: NotFound from Get, nothing from Find,
  // `otherwise` from GetOr.
  template <typename T>
  absl::StatusOr<T> Get(std::string_view key) const;
  template <typename T>
  absl::StatusOr<std::optional<T>> Find(std::string_view key) const;
  template <typename T>
  absl::StatusOr<T> GetOr(std::string_view key, T otherwise) const;

  // False if the key is taken.
  bool Insert(std::string key, GgufValue value);

  const std::map<std::string, GgufValue, std::less<>>& values() const { return values_; }

 private:
  absl::Status Missing(std::string_view key) const;
  absl::Status WrongType(std::string_view key, const GgufValue& got, const GgufValue& wanted) const;

  std::map<std::string, GgufValue, std::less<>> values_;
};

// "u32", "array of string".
std::string GgufTypeName(const GgufValue& value);

struct GgufHeader {
  std::uint32_t version = 0;
  GgufMetadata metadata;
  std::vector<TensorInfo> tensors;  // in the order of the file, with GGUF's names; shape slowest first; file_index 0
  std::int64_t data_offset = 0;     // of the data section, from the beginning of the file
};

// InvalidArgument, naming the file, the key or tensor, what was got and what would be right. Unimplemented: a
// tensor type that Dequantize does not know, a file that is one part of a split model.
absl::StatusOr<GgufHeader> ParseGguf(const ByteSource& file);

template <typename T>
absl::StatusOr<std::optional<T>> GgufMetadata::Find(std::string_view key) const {
  const GgufValue* value = FindValue(key);
  if (value == nullptr) return std::optional<T>();
  if (const T* typed = std::get_if<T>(value)) return std::optional<T>(*typed);
  return WrongType(key, *value, GgufValue(std::in_place_type<T>));
}

template <typename T>
absl::StatusOr<T> GgufMetadata::Get(std::string_view key) const {
  absl::StatusOr<std::optional<T>> found = Find<T>(key);
  if (!found.ok()) return found.status();
  if (!found->has_value()) return Missing(key);
  return **std::move(found);
}

template <typename T>
absl::StatusOr<T> GgufMetadata::GetOr(std::string_view key, T otherwise) const {
  absl::StatusOr<std::optional<T>> found = Find<T>(key);
  if (!found.ok()) return found.status();
  return (*std::move(found)).value_or(std::move(otherwise));
}

}  // namespace trireme::sharding
