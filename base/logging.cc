#include "base/logging.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace trireme {
namespace {

struct Settings {
  LogFormat format = LogFormat::kText;
  std::string program = "trireme";
};

Settings& settings() {
  static Settings* const instance = new Settings;
  return *instance;
}

nlohmann::json ToJson(const LogField::Value& value) {
  return std::visit([](const auto& v) { return nlohmann::json(v); }, value);
}

std::string JsonLine(std::string_view level, std::string_view message, std::initializer_list<LogField> fields) {
  nlohmann::ordered_json line = {{"time", absl::FormatTime(absl::RFC3339_full, absl::Now(), absl::UTCTimeZone())},
                                 {"level", level},
                                 {"program", settings().program},
                                 {"message", message}};
  for (const LogField& field : fields) line[std::string(field.key)] = ToJson(field.value);
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string TextLine(std::string_view level, std::string_view message, std::initializer_list<LogField> fields) {
  std::string line = absl::StrCat(absl::FormatTime("%H:%M:%E3S", absl::Now(), absl::LocalTimeZone()), " ",
                                  std::string(level), " ", settings().program, ": ", std::string(message));
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", std::string(field.key), "=",
                    ToJson(field.value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  return line;
}

// One write for the whole line, so that lines of several processes do not mix.
void Write(std::string_view level, std::string_view message, std::initializer_list<LogField> fields) {
  std::string line =
      settings().format == LogFormat::kJson ? JsonLine(level, message, fields) : TextLine(level, message, fields);
  line.push_back('\n');
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

absl::StatusOr<LogFormat> ParseLogFormat(std::string_view text) {
  if (text == "text") return LogFormat::kText;
  if (text == "json") return LogFormat::kJson;
  return absl::InvalidArgumentError(absl::StrCat("log format \"", std::string(text), "\": expected text or json"));
}

void SetUpLogging(LogFormat format, std::string program) { settings() = {format, std::move(program)}; }

void LogInfo(std::string_view message, std::initializer_list<LogField> fields) { Write("INFO", message, fields); }
void LogWarning(std::string_view message, std::initializer_list<LogField> fields) { Write("WARNING", message, fields); }
void LogError(std::string_view message, std::initializer_list<LogField> fields) { Write("ERROR", message, fields); }

}  // namespace trireme
