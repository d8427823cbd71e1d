#include "server/service/wire.h"

#include <limits>
#include <map>
#include <string>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/wire_format_lite.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/service/status_details.h"
#include "server/text/utf8_stream.h"

namespace trireme::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;
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

// Looks for what made the parser give up, and for what it takes without a word: it cuts numbers off to 32 bits. Reads
// the bytes again with the descriptor in hand.
class WireWalk {
 public:
  explicit WireWalk(Violations& violations) : violations_(violations) {}

  // False, with a violation, if the bytes end in the middle of a field or are no protobuf.
  bool Message(CodedInputStream& in, const Descriptor& type, const std::string& path) {
    std::map<int, int> seen;  // how many of a repeated field came before
    while (const std::uint32_t tag = in.ReadTag()) {
      const FieldDescriptor* field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
      const bool is_good = field != nullptr && IsPackedNumbers(tag, *field)
                               ? PackedNumbers(in, *field, Join(path, *field), seen[field->number()])
                               : Field(in, tag, field, field == nullptr ? path : FieldPath(path, *field, seen));
      if (!is_good) return false;
    }
    return in.ConsumedEntireMessage() || Broken(path);
  }

 private:
  static bool HasLength(std::uint32_t tag) {
    return WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
  }

  static bool IsPackedNumbers(std::uint32_t tag, const FieldDescriptor& field) {
    return HasLength(tag) && field.is_repeated() && Is32BitNumber(field);
  }

  static std::string Join(const std::string& path, const FieldDescriptor& field) {
    return absl::StrCat(path, path.empty() ? "" : ".", field.name());
  }

  static std::string FieldPath(const std::string& path, const FieldDescriptor& field, std::map<int, int>& seen) {
    std::string result = Join(path, field);
    if (field.is_repeated()) absl::StrAppend(&result, "[", seen[field.number()]++, "]");
    return result;
  }

  bool Field(CodedInputStream& in, std::uint32_t tag, const FieldDescriptor* field, const std::string& path) {
    if (field != nullptr && HasLength(tag) && field->type() == FieldDescriptor::TYPE_STRING) return Text(in, path);
    if (field != nullptr && HasLength(tag) && field->type() == FieldDescriptor::TYPE_MESSAGE) {
      return SubMessage(in, *field->message_type(), path);
    }
    const bool is_varint = WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_VARINT;
    if (field != nullptr && is_varint && Is32BitNumber(*field)) return Number(in, *field, path);
    return WireFormatLite::SkipField(&in, tag) || Broken(path);
  }

  bool Text(CodedInputStream& in, const std::string& path) {
    std::uint32_t size = 0;
    std::string text;
    if (!in.ReadVarint32(&size) || !in.ReadString(&text, static_cast<int>(size))) return Broken(path);
    if (!IsUtf8(text)) violations_.Add(path, "is not valid UTF-8");
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
    violations_.Add(path, absl::StrCat("is ", number, ", which is no ", field.type_name()));
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
    violations_.Add(path, "is cut off, or no protobuf message");
    return false;
  }

  Violations& violations_;
};

void WalkThrough(std::string_view wire, const Descriptor& type, Violations& violations) {
  CodedInputStream in(reinterpret_cast<const std::uint8_t*>(wire.data()), static_cast<int>(wire.size()));
  const CodedInputStream::Limit all = in.PushLimit(static_cast<int>(wire.size()));
  WireWalk(violations).Message(in, type, "");
  in.PopLimit(all);
}

void AddUnknownField(const UnknownField& unknown, const Descriptor& type, const std::string& path,
                     Violations& violations) {
  const FieldDescriptor* known = type.FindFieldByNumber(unknown.number());
  if (known != nullptr) {
    violations.Add(absl::StrCat(path, known->name()), absl::StrCat("is not encoded as a ", known->type_name()));
  } else {
    violations.Add(absl::StrCat(path, unknown.number()),
                   absl::StrCat(type.full_name(), " has no field of number ", unknown.number()));
  }
}

void FindUnknownFields(const Message& message, const std::string& path, Violations& violations) {
  const Reflection& reflection = *message.GetReflection();
  const UnknownFieldSet& unknown = reflection.GetUnknownFields(message);
  for (int i = 0; i < unknown.field_count(); ++i) {
    AddUnknownField(unknown.field(i), *message.GetDescriptor(), path, violations);
  }
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_map()) continue;
    if (!field->is_repeated()) {
      FindUnknownFields(reflection.GetMessage(message, field), absl::StrCat(path, field->name(), "."), violations);
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      FindUnknownFields(reflection.GetRepeatedMessage(message, field, i),
                        absl::StrCat(path, field->name(), "[", i, "]."), violations);
    }
  }
}

}  // namespace

absl::Status ParseRequest(std::string_view wire, Message& message) {
  const Descriptor& type = *message.GetDescriptor();
  const bool is_parsed = message.ParseFromArray(wire.data(), static_cast<int>(wire.size()));
  Violations violations;
  WalkThrough(wire, type, violations);
  if (!is_parsed && violations.empty()) violations.Add("", absl::StrCat("the message is no ", type.full_name()));
  RETURN_IF_ERROR(violations.ToStatus(absl::StatusCode::kInvalidArgument, "MALFORMED_MESSAGE"));
  FindUnknownFields(message, "", violations);
  return violations.ToStatus(absl::StatusCode::kInvalidArgument, "UNKNOWN_FIELD");
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

grpc::ByteBuffer SerializeResponse(const Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace trireme::server
