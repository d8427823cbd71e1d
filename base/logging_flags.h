// --log-format and --log-level, the same for every program.
#pragma once
#include <string>
#include <string_view>

#include "base/flags.h"
#include "base/logging.h"
#include "base/status_macros.h"

namespace trireme {

// FlagParser::Add finds these by the type of its target.
inline absl::Status ParseFlagValue(std::string_view text, LogFormat* value) {
  ASSIGN_OR_RETURN(*value, ParseLogFormat(text));
  return absl::OkStatus();
}
inline absl::Status ParseFlagValue(std::string_view text, LogLevel* value) {
  ASSIGN_OR_RETURN(*value, ParseLogLevel(text));
  return absl::OkStatus();
}
inline std::string FormatFlagValue(LogFormat value) { return value == LogFormat::kJson ? "json" : "text"; }
inline std::string FormatFlagValue(LogLevel value) { return std::string(NameOf(value)); }

inline void AddLogFlags(FlagParser& flags, LogFormat* format, LogLevel* level) {
  flags.Add("log-format", "NAME", "text or json, on stderr", format);
  flags.Add("log-level", "NAME", "what is logged: debug, info, warning or error, and all above it", level);
}

}  // namespace trireme
