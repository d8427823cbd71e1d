// Bytes from the wire → a request, or an error that names the field at fault; and a response → bytes.
//
// Why not leave it to gRPC: a message that does not parse never reaches a typed handler, and the client is told
// UNIMPLEMENTED without a word. And protobuf keeps unknown fields silently, drops those in the entries of a map, and
// reads 2^40 + 5 as 5 where a field has 32 bits; here nothing is ignored. Nor is an object made of every two bytes: a
// request of too many parts is refused before it is parsed.
#pragma once
#include <string_view>

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace trireme::server {

// Fills `message` from `wire`. InvalidArgument with google.rpc.BadRequest: bytes that are cut off or no protobuf, a
// string that is not UTF-8, a number beyond its field's 32 bits, a field that this version does not know, more than
// kMaxMessageParts (limits.h).
absl::Status ParseRequest(std::string_view wire, google::protobuf::Message& message);
absl::Status ParseRequest(const grpc::ByteBuffer& wire, google::protobuf::Message& message);

// RESOURCE_EXHAUSTED if it is larger than protobuf can write, 2 GiB.
absl::StatusOr<grpc::ByteBuffer> SerializeResponse(const google::protobuf::Message& message);

}  // namespace trireme::server
