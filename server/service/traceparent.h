// W3C Trace Context (https://www.w3.org/TR/trace-context/): which trace a call belongs to. We start no spans of our own
// and pass nothing on; the id goes into the log, where it joins our lines with the client's.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include <grpcpp/grpcpp.h>

namespace trireme::server {

// The trace id, 32 digits, of a `traceparent` header. Nothing if the header is invalid: as the specification (3.2, 4.3)
// has it, that is as if it had not come. Versions that are not known yet may have more after the flags.
std::optional<std::string> ParseTraceId(std::string_view traceparent);

// That of a call; nothing unless exactly one header came, a valid one.
std::optional<std::string> TraceIdOf(const grpc::ServerContextBase& context);

}  // namespace trireme::server
