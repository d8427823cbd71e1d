#include "server/service/wire.h"

#include <limits>
#include <map>
#include <string>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/service/limits.h"
#include "server/service/status_details.h"
#include "server/text/utf8_stream.h"

namespace trireme::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

bool Is32BitNumber(const FieldDescriptor& field) {
  return field.type() == FieldDescriptor::TYPE_UINT32 || field.type() == FieldDescriptor::TYPE_INT32;
}

bool FitsInto32Bits(const FieldDescriptor& field, std::uint64_t varint) {
  if (field.type() == FieldDescriptor::TYPE_UINT32) return varint <= std::numeric_limits<std::uint32_t>::max();
  const auto number = static_cast<std::int64_t>(varint);
  return number == static_cast<std::int32_t>(number);
}

bool IsVarint(std::uint32_t tag) { return WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_VARINT; }

bool HasLength(std::uint32_t tag) {
  return WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
}

bool IsPacked(std::uint32_t tag, const FieldDescriptor& field) { return HasLength(tag) && field.is_packable(); }

// Whether protobuf's parser takes what follows `tag` for a value of `field`.
bool IsEncodedAs(std::uint32_t tag, const FieldDescriptor& field) {
  const auto type = static_cast<WireFormatLite::FieldType>(field.type());
  return WireFormatLite::GetTagWireType(tag) == WireFormatLite::WireTypeForFieldType(type) || IsPacked(tag, field);
}

// Reads the bytes with the descriptor in hand, before protobuf's parser does: that takes some things without a word
// (unknown fields, numbers it cuts off to 32 bits), of others it does not say where they are, and it makes an object of
// every two bytes.
class WireWalk {
 public:
  // REQUIRES: they outlive this.
  WireWalk(Violations& malformed, Violations& unknown) : malformed_(malformed), unknown_(unknown) {}

  // False, with a violation, if the bytes end in the middle of a field, are no protobuf, or have too many parts.
  bool Message(CodedInputStream& in, const Descriptor& type, const std::string& path) {
    std::map<int, int> seen;  // how many of a repeated field came before
    while (const std::uint32_t tag = in.ReadTag()) {
      const FieldDescriptor* field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
      const bool is_known = field != nullptr && IsEncodedAs(tag, *field);
      const bool is_good = is_known ? Known(in, tag, *field, path, seen) : Unknown(in, tag, type, field, path);
      if (!is_good) return false;
    }
    return in.ConsumedEntireMessage() || Broken(path);
  }

 private:
  static std::string Join(const std::string& path, const std::string& name) {
    return absl::StrCat(path, path.empty() ? "" : ".", name);
  }

  static std::string FieldPath(const std::string& path, const FieldDescriptor& field, std::map<int, int>& seen) {
    std::string result = Join(path, field.name());
    if (field.is_repeated()) absl::StrAppend(&result, "[", seen[field.number()]++, "]");
    return result;
  }

  bool Known(CodedInputStream& in, std::uint32_t tag, const FieldDescriptor& field, const std::string& path,
             std::map<int, int>& seen) {
    if (IsPacked(tag, field) && Is32BitNumber(field)) {
      return PackedNumbers(in, field, Join(path, field.name()), seen[field.number()]);
    }
    const std::string field_path = FieldPath(path, field, seen);
    if (IsVarint(tag) && Is32BitNumber(field)) return Number(in, field, field_path);
    if (HasLength(tag) && !CountPart(field_path)) return false;
    if (field.type() == FieldDescriptor::TYPE_STRING) return Text(in, field_path);
    if (field.type() == FieldDescriptor::TYPE_MESSAGE) return SubMessage(in, *field.message_type(), field_path);
    return WireFormatLite::SkipField(&in, tag) || Broken(field_path);
  }

  // `field` is what has that number, if there is one.
  bool Unknown(CodedInputStream& in, std::uint32_t tag, const Descriptor& type, const FieldDescriptor* field,
               const std::string& path) {
    const int number = WireFormatLite::GetTagFieldNumber(tag);
    if (field != nullptr) {
      unknown_.Add(Join(path, field->name()), absl::StrCat("is not encoded as a ", field->type_name()));
    } else {
      unknown_.Add(Join(path, absl::StrCat(number)),
                   absl::StrCat(type.full_name(), " has no field of number ", number));
    }
    return CountPart(path) && (WireFormatLite::SkipField(&in, tag) || Broken(path));
  }

  bool CountPart(const std::string& path) {
    if (++num_parts_ <= kMaxMessageParts) return true;
    malformed_.Add(path,
                   absl::StrCat("is one of more than ", kMaxMessageParts, " strings and messages in one request"));
    return false;
  }

  bool Text(CodedInputStream& in, const std::string& path) {
    std::uint32_t size = 0;
    std::string text;
    if (!in.ReadVarint32(&size) || !in.ReadString(&text, static_cast<int>(size))) return Broken(path);
    if (!IsUtf8(text)) malformed_.Add(path, "is not valid UTF-8");
    return true;
  }

  bool Number(CodedInputStream& in, const FieldDescriptor& field, const std::string& path) {
    std::uint64_t varint = 0;
    if (!in.ReadVarint64(&varint)) return Broken(path);
    if (!FitsInto32Bits(field, varint)) AddTooWide(field, varint, path);
    return true;
  }

  // `index` is that of the first in the repeated field, and then of the one after the last.
  bool PackedNumbers(CodedInputStream& in, const FieldDescriptor& field, const std::string& path, int& index) {
    int size = 0;
    if (!in.ReadVarintSizeAsInt(&size) || in.BytesUntilLimit() < size) return Broken(path);
    const CodedInputStream::Limit outer = in.PushLimit(size);
    for (; in.BytesUntilLimit() > 0; ++index) {
      std::uint64_t varint = 0;
      if (!in.ReadVarint64(&varint)) return Broken(path);
      if (!FitsInto32Bits(field, varint)) AddTooWide(field, varint, absl::StrCat(path, "[", index, "]"));
    }
    in.PopLimit(outer);
    return true;
  }

  void AddTooWide(const FieldDescriptor& field, std::uint64_t varint, const std::string& path) {
    const bool is_signed = field.type() == FieldDescriptor::TYPE_INT32;
    const std::string number = is_signed ? absl::StrCat(static_cast<std::int64_t>(varint)) : absl::StrCat(varint);
    malformed_.Add(path, absl::StrCat("is ", number, ", which is no ", field.type_name()));
  }

  bool SubMessage(CodedInputStream& in, const Descriptor& type, const std::string& path) {
    int size = 0;
    if (!in.ReadVarintSizeAsInt(&size) || in.BytesUntilLimit() < size) return Broken(path);
    const CodedInputStream::Limit outer = in.PushLimit(size);
    if (!Message(in, type, path)) return false;
    in.PopLimit(outer);
    return true;
  }

  bool Broken(const std::string& path) {
    malformed_.Add(path, "is cut off, or no protobuf message");
    return false;
  }

  Violations& malformed_;
  Violations& unknown_;
  std::uint32_t num_parts_ = 0;
};

absl::Status WalkThrough(std::string_view wire, const Descriptor& type) {
  CodedInputStream in(reinterpret_cast<const std::uint8_t*>(wire.data()), static_cast<int>(wire.size()));
  const CodedInputStream::Limit all = in.PushLimit(static_cast<int>(wire.size()));
  Violations malformed, unknown;
  WireWalk(malformed, unknown).Message(in, type, "");
  in.PopLimit(all);
  RETURN_IF_ERROR(malformed.ToStatus(absl::StatusCode::kInvalidArgument, "MALFORMED_MESSAGE"));
  return unknown.ToStatus(absl::StatusCode::kInvalidArgument, "UNKNOWN_FIELD");
}

}  // namespace

absl::Status ParseRequest(std::string_view wire, Message& message) {
  const Descriptor& type = *message.GetDescriptor();
  RETURN_IF_ERROR(WalkThrough(wire, type));
  if (message.ParseFromArray(wire.data(), static_cast<int>(wire.size()))) return absl::OkStatus();
  Violations violations;
  violations.Add("", absl::StrCat("the message is no ", type.full_name()));
  return violations.ToStatus(absl::StatusCode::kInvalidArgument, "MALFORMED_MESSAGE");
}

absl::Status ParseRequest(const grpc::ByteBuffer& wire, Message& message) {
  std::vector<grpc::Slice> slices;
  if (!wire.Dump(&slices).ok()) {
    return absl::CancelledError("the call ended before its request had come");
  }
  std::string bytes;
  bytes.reserve(wire.Length());
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return ParseRequest(std::string_view(bytes), message);
}

absl::StatusOr<grpc::ByteBuffer> SerializeResponse(const Message& message) {
  constexpr std::size_t kMaxBytes = std::numeric_limits<std::int32_t>::max();
  if (const std::size_t size = message.ByteSizeLong(); size > kMaxBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the response has ", size, " bytes, a message can have ", kMaxBytes));
  }
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace trireme::server
