#include "base/logging.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/check.h"

namespace trireme {
namespace {

struct Settings {
  LogFormat format = LogFormat::kText;
  std::string program = "trireme";
  LogLevel least = LogLevel::kInfo;
};

Settings& settings() {
  static Settings* const instance = new Settings;
  return *instance;
}

nlohmann::json ToJson(const LogField::Value& value) {
  return std::visit([](const auto& v) { return nlohmann::json(v); }, value);
}

std::string JsonLine(std::string_view level, std::string_view message, std::span<const LogField> fields) {
  nlohmann::ordered_json line = {{"time", absl::FormatTime(absl::RFC3339_full, absl::Now(), absl::UTCTimeZone())},
                                 {"level", level},
                                 {"program", settings().program},
                                 {"message", message}};
  for (const LogField& field : fields) line[std::string(field.key)] = ToJson(field.value);
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string TextLine(std::string_view level, std::string_view message, std::span<const LogField> fields) {
  std::string line = absl::StrCat(absl::FormatTime("%H:%M:%E3S", absl::Now(), absl::LocalTimeZone()), " ",
                                  std::string(level), " ", settings().program, ": ", std::string(message));
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", std::string(field.key), "=",
                    ToJson(field.value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  return line;
}

}  // namespace

absl::StatusOr<LogFormat> ParseLogFormat(std::string_view text) {
  if (text == "text") return LogFormat::kText;
  if (text == "json") return LogFormat::kJson;
  return absl::InvalidArgumentError(absl::StrCat("log format \"", std::string(text), "\": expected text or json"));
}

absl::StatusOr<LogLevel> ParseLogLevel(std::string_view text) {
  for (const LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    if (text == NameOf(level)) return level;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("log level \"", std::string(text), "\": expected debug, info, warning or error"));
}

std::string_view NameOf(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  CHECK(false) << "unknown LogLevel " << static_cast<int>(level);
  return "";
}

void SetUpLogging(LogFormat format, std::string program, LogLevel least) {
  settings() = {format, std::move(program), least};
}

// One write for the whole line, so that lines of several processes do not mix.
void Log(LogLevel level, std::string_view message, std::span<const LogField> fields) {
  if (level < settings().least) return;
  const std::string shown_level = absl::AsciiStrToUpper(std::string(NameOf(level)));
  std::string line = settings().format == LogFormat::kJson ? JsonLine(shown_level, message, fields)
                                                           : TextLine(shown_level, message, fields);
  line.push_back('\n');
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

void LogDebug(std::string_view message, std::initializer_list<LogField> fields) {
  Log(LogLevel::kDebug, message, {fields.begin(), fields.size()});
}
void LogInfo(std::string_view message, std::initializer_list<LogField> fields) {
  Log(LogLevel::kInfo, message, {fields.begin(), fields.size()});
}
void LogWarning(std::string_view message, std::initializer_list<LogField> fields) {
  Log(LogLevel::kWarning, message, {fields.begin(), fields.size()});
}
void LogError(std::string_view message, std::initializer_list<LogField> fields) {
  Log(LogLevel::kError, message, {fields.begin(), fields.size()});
}

}  // namespace trireme
