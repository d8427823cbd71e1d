// Structured logging to stderr: one line an event, as text for people or as JSON for machines.
//
//   LogInfo("worker ready", {{"rank", 3}, {"weights_bytes", 12345}});
//
// All functions may be called from any thread. Never log prompt or output text. A line about a request has its
// `request_id`.
#pragma once
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"

namespace trireme {

enum class LogFormat { kText, kJson };

// Parses "text" or "json". InvalidArgument names the value otherwise.
absl::StatusOr<LogFormat> ParseLogFormat(std::string_view text);

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Parses "debug", "info", "warning" or "error". InvalidArgument names the value otherwise.
absl::StatusOr<LogLevel> ParseLogLevel(std::string_view text);
// What ParseLogLevel parses.
std::string_view NameOf(LogLevel level);

// Called once, before other threads start. `program` is put on each line ("server", "worker[1234]"). Lines below
// `least` are left out.
void SetUpLogging(LogFormat format, std::string program, LogLevel least = LogLevel::kInfo);

// A key and its value. Keys carry units (`_ms`, `_bytes`).
struct LogField {
  using Value = std::variant<long long, double, bool, std::string>;

  template <typename T>
  LogField(std::string_view k, const T& v) : key(k), value(Convert(v)) {}

  std::string_view key;
  Value value;

 private:
  template <typename T>
  static Value Convert(const T& v) {
    if constexpr (std::is_same_v<T, bool>) {
      return v;
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<long long>(v);
    } else if constexpr (std::is_floating_point_v<T>) {
      return static_cast<double>(v);
    } else {
      return std::string(v);
    }
  }
};

void Log(LogLevel level, std::string_view message, std::span<const LogField> fields);

void LogDebug(std::string_view message, std::initializer_list<LogField> fields = {});
void LogInfo(std::string_view message, std::initializer_list<LogField> fields = {});
void LogWarning(std::string_view message, std::initializer_list<LogField> fields = {});
void LogError(std::string_view message, std::initializer_list<LogField> fields = {});

}  // namespace trireme
