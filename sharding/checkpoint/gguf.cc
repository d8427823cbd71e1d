#include "sharding/checkpoint/gguf.h"

#include <bit>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "sharding/checkpoint/error_text.h"
#include "sharding/checkpoint/gguf_cursor.h"
#include "sharding/checkpoint/gguf_values.h"

namespace trireme::sharding {
namespace {

constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr std::uint32_t kDefaultAlignment = 32;
constexpr std::uint32_t kMaxDimensions = 4;
constexpr std::size_t kMaxTensorNameBytes = 63;
// The least that a key with its value, and a tensor's info, can take.
constexpr std::int64_t kMinPairBytes = 8 + 4 + 1;
constexpr std::int64_t kMinTensorInfoBytes = 8 + 4 + 4 + 8;

struct GgmlType {
  std::uint32_t id;
  const char* name;
  std::optional<DType> dtype;  // nothing: known by name, not supported
};

constexpr GgmlType kGgmlTypes[] = {
    {0, "F32", DType::kF32},    {1, "F16", DType::kF16},  {2, "Q4_0", DType::kQ4_0},  {3, "Q4_1", DType::kQ4_1},
    {6, "Q5_0", DType::kQ5_0},  {7, "Q5_1", {}},          {8, "Q8_0", DType::kQ8_0},  {9, "Q8_1", {}},
    {10, "Q2_K", {}},           {11, "Q3_K", {}},         {12, "Q4_K", DType::kQ4_K}, {13, "Q5_K", DType::kQ5_K},
    {14, "Q6_K", DType::kQ6_K}, {15, "Q8_K", {}},         {16, "IQ2_XXS", {}},        {17, "IQ2_XS", {}},
    {18, "IQ3_XXS", {}},        {19, "IQ1_S", {}},        {20, "IQ4_NL", {}},         {21, "IQ3_S", {}},
    {22, "IQ2_S", {}},          {23, "IQ4_XS", {}},       {24, "I8", DType::kI8},     {25, "I16", DType::kI16},
    {26, "I32", DType::kI32},   {27, "I64", DType::kI64}, {28, "F64", DType::kF64},   {29, "IQ1_M", {}},
    {30, "BF16", DType::kBF16}, {34, "TQ1_0", {}},        {35, "TQ2_0", {}},          {39, "MXFP4", {}},
};

absl::Status RefuseSplit(const GgufCursor& cursor, const GgufMetadata& metadata) {
  ASSIGN_OR_RETURN(const auto count, metadata.GetOr<std::uint16_t>("split.count", 1));
  ASSIGN_OR_RETURN(const auto number, metadata.GetOr<std::uint16_t>("split.no", 0));
  if (count <= 1) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(cursor.file_name(), ": part ", number + 1, " of ", count,
                                               " of a split GGUF; split files are not supported, merge them first "
                                               "(llama-gguf-split --merge)"));
}

absl::StatusOr<std::uint32_t> ReadAlignment(const GgufCursor& cursor, const GgufMetadata& metadata) {
  ASSIGN_OR_RETURN(const auto alignment, metadata.GetOr<std::uint32_t>("general.alignment", kDefaultAlignment));
  if (std::has_single_bit(alignment)) return alignment;
  return cursor.Malformed(absl::StrCat("general.alignment is ", alignment, ", expected a power of two"));
}

std::string SupportedTypes() {
  std::string names;
  for (const GgmlType& type : kGgmlTypes) {
    if (type.dtype.has_value()) absl::StrAppend(&names, names.empty() ? "" : ", ", type.name);
  }
  return names;
}

absl::StatusOr<DType> DTypeFromId(const GgufCursor& cursor, const std::string& tensor, std::uint32_t id) {
  const char* name = "unknown";
  for (const GgmlType& type : kGgmlTypes) {
    if (type.id != id) continue;
    if (type.dtype.has_value()) return *type.dtype;
    name = type.name;
  }
  return absl::UnimplementedError(absl::StrCat(cursor.file_name(), ": tensor ", Quoted(tensor), " has type ", name,
                                               " (", id, "), which is not supported; supported: ", SupportedTypes()));
}

// Dimensions stand in the file with the fastest first.
absl::StatusOr<std::vector<std::int64_t>> ReadShape(GgufCursor& cursor, const std::string& tensor) {
  ASSIGN_OR_RETURN(const auto num_dimensions, cursor.ReadNumber<std::uint32_t>("a tensor's number of dimensions"));
  if (num_dimensions > kMaxDimensions) {
    return cursor.Malformed(absl::StrCat("tensor ", Quoted(tensor), " has ", num_dimensions, " dimensions, at most ",
                                         kMaxDimensions, " are allowed"));
  }
  std::vector<std::int64_t> shape(num_dimensions);
  for (std::uint32_t d = num_dimensions; d-- > 0;) {
    ASSIGN_OR_RETURN(shape[d], cursor.ReadNumber<std::int64_t>("a tensor's dimension"));
  }
  return shape;
}

// Everything but whether the offset is the right one.
absl::StatusOr<TensorInfo> ReadTensorInfo(GgufCursor& cursor) {
  TensorInfo tensor;
  ASSIGN_OR_RETURN(tensor.name, cursor.ReadString("a tensor's name"));
  if (tensor.name.empty() || tensor.name.size() > kMaxTensorNameBytes) {
    return cursor.Malformed(absl::StrCat("tensor name ", Quoted(tensor.name), " has ", tensor.name.size(),
                                         " bytes, expected 1 to ", kMaxTensorNameBytes));
  }
  ASSIGN_OR_RETURN(tensor.shape, ReadShape(cursor, tensor.name));
  ASSIGN_OR_RETURN(const auto type, cursor.ReadNumber<std::uint32_t>("a tensor's type"));
  ASSIGN_OR_RETURN(tensor.dtype, DTypeFromId(cursor, tensor.name, type));
  const std::optional<std::int64_t> bytes = CheckedByteSize(tensor.dtype, tensor.shape);
  const std::int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (!bytes.has_value() || row % TraitsOf(tensor.dtype).block_elements != 0) {
    return cursor.Malformed(absl::StrCat("tensor ", Quoted(tensor.name), ": shape ", ShapeToString(tensor.shape),
                                         " of ", std::string(TraitsOf(tensor.dtype).name),
                                         " is negative, too large, or its rows are no multiple of the block of ",
                                         TraitsOf(tensor.dtype).block_elements));
  }
  tensor.byte_size = *bytes;
  ASSIGN_OR_RETURN(tensor.byte_offset, cursor.ReadNumber<std::int64_t>("a tensor's offset"));
  return tensor;
}

absl::StatusOr<std::vector<TensorInfo>> ReadTensorInfos(GgufCursor& cursor, std::int64_t count) {
  std::vector<TensorInfo> tensors;
  std::set<std::string> names;
  for (std::int64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(TensorInfo tensor, ReadTensorInfo(cursor));
    if (!names.insert(tensor.name).second) {
      return cursor.Malformed(absl::StrCat("tensor ", Quoted(tensor.name), " comes twice"));
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// The next multiple of `alignment`, a power of two. Nothing above 2^63.
std::optional<std::int64_t> RoundUp(std::int64_t value, std::int64_t alignment) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(value, alignment - 1, &sum)) return std::nullopt;
  return sum & ~(alignment - 1);
}

// Offsets are relative to the data section and must be the padded sums of the sizes before. Makes them absolute.
absl::Status PlaceTensors(const GgufCursor& cursor, std::int64_t file_size, std::uint32_t alignment,
                          GgufHeader& header) {
  std::int64_t expected = 0;
  for (TensorInfo& tensor : header.tensors) {
    if (tensor.byte_offset != expected) {
      return cursor.Malformed(absl::StrCat("tensor ", Quoted(tensor.name), " has offset ", tensor.byte_offset,
                                           ", expected ", expected, ": data must be without holes and in order"));
    }
    const std::int64_t room = file_size - header.data_offset - expected;
    if (tensor.byte_size > room) {
      return cursor.Malformed(absl::StrCat("tensor ", Quoted(tensor.name), " needs ", tensor.byte_size, " bytes, only ",
                                           room, " are left: the file is cut short"));
    }
    tensor.byte_offset += header.data_offset;
    const std::optional<std::int64_t> next = RoundUp(expected + tensor.byte_size, alignment);
    if (!next.has_value()) return cursor.Malformed(absl::StrCat("tensor ", Quoted(tensor.name), " is too large"));
    expected = *next;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::uint32_t> ReadVersion(GgufCursor& cursor) {
  ASSIGN_OR_RETURN(const auto magic, cursor.ReadNumber<std::uint32_t>("the magic"));
  if (magic != kMagic) return cursor.Malformed("not a GGUF file: it does not begin with \"GGUF\"");
  ASSIGN_OR_RETURN(const auto version, cursor.ReadNumber<std::uint32_t>("the version"));
  if (version == 2 || version == 3) return version;
  const bool is_swapped = (version & 0xffff) == 0;
  return cursor.Malformed(absl::StrCat("GGUF version ", version, is_swapped ? " (big-endian?)" : "",
                                       " is not supported; supported: 2, 3, little-endian"));
}

}  // namespace

absl::StatusOr<GgufHeader> ParseGguf(const ByteSource& file) {
  GgufCursor cursor(file);
  GgufHeader header;
  ASSIGN_OR_RETURN(header.version, ReadVersion(cursor));
  ASSIGN_OR_RETURN(const std::int64_t num_tensors, cursor.ReadCount(kMinTensorInfoBytes, "the number of tensors"));
  ASSIGN_OR_RETURN(const std::int64_t num_pairs, cursor.ReadCount(kMinPairBytes, "the number of metadata keys"));
  ASSIGN_OR_RETURN(header.metadata, ReadGgufMetadata(cursor, num_pairs));
  RETURN_IF_ERROR(RefuseSplit(cursor, header.metadata));
  ASSIGN_OR_RETURN(const std::uint32_t alignment, ReadAlignment(cursor, header.metadata));
  ASSIGN_OR_RETURN(header.tensors, ReadTensorInfos(cursor, num_tensors));
  // Cannot overflow: a position is at most a file's size, far below 2^63 - 2^31.
  header.data_offset = RoundUp(cursor.position(), alignment).value();
  RETURN_IF_ERROR(PlaceTensors(cursor, file.size(), alignment, header));
  return header;
}

}  // namespace trireme::sharding
