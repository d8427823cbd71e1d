#include "sharding/checkpoint/safetensors.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "sharding/checkpoint/error_text.h"
#include "sharding/checkpoint/safetensors_json.h"

namespace trireme::sharding {
namespace {

constexpr std::int64_t kLengthBytes = 8;
constexpr std::int64_t kMaxHeaderBytes = 100'000'000;

absl::Status Malformed(const ByteSource& file, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(file.name(), ": ", std::string(what)));
}

absl::Status MalformedTensor(const ByteSource& file, const std::string& name, const std::string& what) {
  return Malformed(file, absl::StrCat("tensor ", Quoted(name), ": ", what));
}

absl::StatusOr<std::int64_t> ReadHeaderLength(const ByteSource& file) {
  if (file.size() < kLengthBytes) {
    return Malformed(file, absl::StrCat("a safetensors file has at least 8 bytes, this one has ", file.size()));
  }
  std::byte bytes[kLengthBytes];
  RETURN_IF_ERROR(file.ReadAt(0, bytes));
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  if (length > static_cast<std::uint64_t>(kMaxHeaderBytes)) {
    return Malformed(file, absl::StrCat("header length ", length, " is above the limit of ", kMaxHeaderBytes));
  }
  if (length > static_cast<std::uint64_t>(file.size() - kLengthBytes)) {
    return Malformed(file, absl::StrCat("header length ", length, " goes beyond the file's ", file.size(), " bytes"));
  }
  return static_cast<std::int64_t>(length);
}

absl::StatusOr<SafetensorsJson> ReadJson(const ByteSource& file, std::int64_t length) {
  std::string text(static_cast<std::size_t>(length), '\0');
  RETURN_IF_ERROR(file.ReadAt(kLengthBytes, std::as_writable_bytes(std::span(text))));
  absl::StatusOr<SafetensorsJson> parsed = ParseSafetensorsJson(text);
  if (!parsed.ok()) return Malformed(file, absl::StrCat("header: ", parsed.status().message()));
  return parsed;
}

// Shape, dtype and offsets of one entry must agree with each other and with the size of the data section.
absl::StatusOr<TensorInfo> CheckEntry(const ByteSource& file, const SafetensorsEntry& entry, std::int64_t data_offset) {
  const std::int64_t data_bytes = file.size() - data_offset;
  const auto [begin, end] = entry.data_offsets;
  if (begin > end || end > data_bytes) {
    return MalformedTensor(file, entry.name,
                           absl::StrCat("data_offsets [", begin, ", ", end, ") do not lie within the ", data_bytes,
                                        " bytes of data; the file is cut short or the header is wrong"));
  }
  const std::optional<std::int64_t> bytes = CheckedByteSize(entry.dtype, entry.shape);
  if (!bytes.has_value() || *bytes != end - begin) {
    return MalformedTensor(
        file, entry.name,
        absl::StrCat("shape ", ShapeToString(entry.shape), " of ", std::string(TraitsOf(entry.dtype).name), " needs ",
                     bytes.has_value() ? absl::StrCat(*bytes) : "no whole number of", " bytes, data_offsets [", begin,
                     ", ", end, ") hold ", end - begin));
  }
  return TensorInfo{.name = entry.name,
                    .dtype = entry.dtype,
                    .shape = entry.shape,
                    .byte_offset = data_offset + begin,
                    .byte_size = *bytes};
}

// Data that no tensor claims. Its neighbours are named, since the one that is missing cannot be: files keep to the
// model's order.
absl::Status Unclaimed(const ByteSource& file, const TensorInfo* before, const TensorInfo* after, std::int64_t begin,
                       std::int64_t end) {
  const std::string where = before != nullptr && after != nullptr
                                ? absl::StrCat("between tensors ", Quoted(before->name), " and ", Quoted(after->name))
                            : before != nullptr ? absl::StrCat("after the last tensor, ", Quoted(before->name))
                            : after != nullptr  ? absl::StrCat("before the first tensor, ", Quoted(after->name))
                                                : "of a file without tensors";
  return Malformed(file, absl::StrCat("bytes [", begin, ", ", end, ") of the data, ", where,
                                      ", belong to no tensor: the header lacks one, or the file is damaged"));
}

// `tensors` in the order of their data: each begins where the one before it ends, the last ends with the file.
absl::Status CheckCoverage(const ByteSource& file, const std::vector<TensorInfo>& tensors, std::int64_t data_offset) {
  std::int64_t at = data_offset;
  const TensorInfo* before = nullptr;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.byte_offset > at) {
      return Unclaimed(file, before, &tensor, at - data_offset, tensor.byte_offset - data_offset);
    }
    if (tensor.byte_offset < at) {
      return MalformedTensor(file, tensor.name,
                             absl::StrCat("its data begins at ", tensor.byte_offset - data_offset, ", but tensor ",
                                          Quoted(before->name), " ends at ", at - data_offset));
    }
    at += tensor.byte_size;
    before = &tensor;
  }
  if (at == file.size()) return absl::OkStatus();
  return Unclaimed(file, before, nullptr, at - data_offset, file.size() - data_offset);
}

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensors(const ByteSource& file) {
  ASSIGN_OR_RETURN(const std::int64_t length, ReadHeaderLength(file));
  ASSIGN_OR_RETURN(SafetensorsJson json, ReadJson(file, length));
  SafetensorsHeader header{.tensors = {}, .metadata = std::move(json.metadata), .data_offset = kLengthBytes + length};
  for (const SafetensorsEntry& entry : json.entries) {
    ASSIGN_OR_RETURN(TensorInfo tensor, CheckEntry(file, entry, header.data_offset));
    header.tensors.push_back(std::move(tensor));
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.byte_offset, a.byte_size, a.name) < std::tie(b.byte_offset, b.byte_size, b.name);
  });
  RETURN_IF_ERROR(CheckCoverage(file, header.tensors, header.data_offset));
  return header;
}

}  // namespace trireme::sharding
