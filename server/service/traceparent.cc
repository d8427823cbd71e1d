#include "server/service/traceparent.h"

#include <algorithm>

namespace trireme::server {
namespace {

// "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
constexpr std::size_t kTraceIdBegin = 3;
constexpr std::size_t kTraceIdSize = 32;
constexpr std::size_t kParentIdBegin = 36;
constexpr std::size_t kParentIdSize = 16;
constexpr std::size_t kFlagsBegin = 53;
constexpr std::size_t kFlagsSize = 2;
constexpr std::size_t kSize = 55;

// Upper case is invalid.
bool IsHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// All zeros stand for no id.
bool IsId(std::string_view text) { return IsHex(text) && text.find_first_not_of('0') != std::string_view::npos; }

bool HasValidEnd(std::string_view traceparent, std::string_view version) {
  if (traceparent.size() == kSize) return true;
  return version != "00" && traceparent[kSize] == '-';
}

}  // namespace

std::optional<std::string> ParseTraceId(std::string_view traceparent) {
  if (traceparent.size() < kSize) return std::nullopt;
  const std::string_view version = traceparent.substr(0, 2);
  const std::string_view trace_id = traceparent.substr(kTraceIdBegin, kTraceIdSize);
  if (!IsHex(version) || version == "ff" || !HasValidEnd(traceparent, version)) return std::nullopt;
  for (const std::size_t begin : {kTraceIdBegin, kParentIdBegin, kFlagsBegin}) {
    if (traceparent[begin - 1] != '-') return std::nullopt;
  }
  if (!IsId(trace_id) || !IsId(traceparent.substr(kParentIdBegin, kParentIdSize))) return std::nullopt;
  if (!IsHex(traceparent.substr(kFlagsBegin, kFlagsSize))) return std::nullopt;
  return std::string(trace_id);
}

std::optional<std::string> TraceIdOf(const grpc::ServerContextBase& context) {
  const auto [begin, end] = context.client_metadata().equal_range("traceparent");
  if (std::distance(begin, end) != 1) return std::nullopt;
  return ParseTraceId({begin->second.data(), begin->second.size()});
}

}  // namespace trireme::server
