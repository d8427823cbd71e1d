// Command-line flags into an options struct: typed, with help made from the declarations. Names the flag and the value
// in every error.
//
//   struct Options { std::string listen = "127.0.0.1:8700"; std::optional<float> temperature; bool json = false; };
//   Options options;
//   FlagParser flags("trireme-server", "Serves one checkpoint over gRPC.");
//   flags.Add("listen", "ADDR", "where to listen for gRPC", &options.listen);
//   flags.Add("temperature", "T", "0 is greedy", &options.temperature);
//   flags.AddSwitch("json", "one JSON object per message", &options.json);
//   if (std::optional<int> exit_status = ParseOrExit(flags, {argv + 1, argv + argc})) return *exit_status;
//
// `--flag value` and `--flag=value`; a switch takes no value, or `=true` and `=false`. Given twice, the last one wins,
// unless it is one that repeats. Every parser knows --help and --version. Arguments that are no flags are errors.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace trireme {

// A number of bytes as written by people: "1073741824", "1GiB", "512MiB", "64KiB".
struct ByteSize {
  std::uint64_t bytes = 0;
  bool operator==(const ByteSize&) const = default;
};

// One value of a flag. InvalidArgument says what was expected, without the flag's name: "expected a whole number from
// 0 to 4294967295, got "x"".
absl::Status ParseFlagValue(std::string_view text, std::string* value);
absl::Status ParseFlagValue(std::string_view text, std::int32_t* value);
absl::Status ParseFlagValue(std::string_view text, std::uint32_t* value);
absl::Status ParseFlagValue(std::string_view text, std::uint64_t* value);
absl::Status ParseFlagValue(std::string_view text, float* value);   // finite
absl::Status ParseFlagValue(std::string_view text, double* value);  // finite
absl::Status ParseFlagValue(std::string_view text, ByteSize* value);
absl::Status ParseFlagValue(std::string_view text, absl::Duration* value);  // "250ms", "1m30s"; not negative
// Ids with commas between them: "1,2,3". Not empty.
absl::Status ParseFlagValue(std::string_view text, std::vector<std::uint32_t>* value);
template <typename T>
absl::Status ParseFlagValue(std::string_view text, std::optional<T>* value) {
  return ParseFlagValue(text, &value->emplace());
}

// A whole number from `min` to `max`. T: std::int32_t, std::uint32_t, std::uint64_t.
template <typename T>
absl::Status ParseInRange(std::string_view text, T min, T max, T* value);

// How a default is shown in --help; empty where there is none to show.
std::string FormatFlagValue(const std::string& value);
std::string FormatFlagValue(std::int32_t value);
std::string FormatFlagValue(std::uint32_t value);
std::string FormatFlagValue(std::uint64_t value);
std::string FormatFlagValue(float value);
std::string FormatFlagValue(double value);
std::string FormatFlagValue(ByteSize value);
std::string FormatFlagValue(absl::Duration value);
inline std::string FormatFlagValue(const std::vector<std::uint32_t>&) { return ""; }
template <typename T>
std::string FormatFlagValue(const std::optional<T>& value) {
  return value.has_value() ? FormatFlagValue(*value) : "";
}

enum class ParsedFlags { kRun, kShowHelp, kShowVersion };

// Not thread-safe. The options that flags write to outlive the parser.
class FlagParser {
 public:
  // `program` as the user types it ("trireme generate"); `summary` is the first line of the help.
  FlagParser(std::string program, std::string summary);

  // Declares --`name` VALUE. What `target` holds now is the default. REQUIRES: no other flag has that name.
  template <typename T>
  void Add(std::string_view name, std::string_view value_name, std::string_view help, T* target) {
    AddParsed(name, value_name, help, [target](std::string_view text) { return ParseFlagValue(text, target); });
    SetShownDefault(FormatFlagValue(*target));
  }

  // The same, and leaving it out is an error.
  template <typename T>
  void AddRequired(std::string_view name, std::string_view value_name, std::string_view help, T* target) {
    Add(name, value_name, help, target);
    MarkRequired();
  }

  // A whole number from `min` to `max`.
  template <typename T>
  void AddInRange(std::string_view name, std::string_view value_name, std::string_view help, T min, T max, T* target) {
    AddParsed(name, value_name, help, [=](std::string_view text) { return ParseInRange(text, min, max, target); });
    SetShownDefault(FormatFlagValue(*target));
  }

  // A value with a parser of its own (an enumeration, say). `parse` returns what was expected on bad text;
  // `shown_default` is for the help.
  void AddParsed(std::string_view name, std::string_view value_name, std::string_view help,
                 std::function<absl::Status(std::string_view)> parse, std::string_view shown_default = "");

  // Declares --`name` VALUE, which may be given again and again: each value is appended to `target`.
  void AddRepeated(std::string_view name, std::string_view value_name, std::string_view help,
                   std::vector<std::string>* target);

  // Flags that are declared from here on are shown under `title` by --help. Before the first group they are just flags.
  void BeginGroup(std::string_view title);

  // Declares --`name`, which sets `target`.
  void AddSwitch(std::string_view name, std::string_view help, bool* target);

  // Arguments without the program's name. --help and --version end the parse at once, so that they work beside flags
  // that are wrong or missing. On an error, targets of the flags before it have been set.
  absl::StatusOr<ParsedFlags> Parse(const std::vector<std::string>& arguments) const;

  const std::string& program() const { return program_; }

  // What --help prints; ends with a newline.
  std::string Help() const;

 private:
  struct Flag {
    std::string name;
    std::string value_name;  // empty for a switch
    std::string help;
    std::string shown_default;
    std::string group;
    bool required = false;
    std::function<absl::Status(std::string_view)> parse;
  };

  void SetShownDefault(std::string text) { flags_.back().shown_default = std::move(text); }
  void MarkRequired() { flags_.back().required = true; }
  const Flag* Find(std::string_view name) const;
  absl::StatusOr<const Flag*> FindOrError(const std::string& argument) const;  // "--name" or "--name=value"
  absl::Status CheckRequired(const std::vector<std::string>& seen) const;
  std::string HelpOf(std::string_view group, std::size_t width) const;

  std::string program_;
  std::string summary_;
  std::vector<std::string> groups_ = {"Flags"};
  std::vector<Flag> flags_;
};

// What a main does with its flags: nullopt when it shall go on; else the exit status, having printed the help or the
// version to `out` (0), or the error to `err` (2).
std::optional<int> ParseOrExit(const FlagParser& flags, const std::vector<std::string>& arguments, std::ostream& out,
                               std::ostream& err);
// The same on stdout and stderr.
std::optional<int> ParseOrExit(const FlagParser& flags, const std::vector<std::string>& arguments);

}  // namespace trireme
