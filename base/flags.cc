#include "base/flags.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "base/version.h"

namespace trireme {
namespace {

absl::Status Expected(std::string_view what, std::string_view got) {
  return absl::InvalidArgumentError(absl::StrCat("expected ", std::string(what), ", got \"", std::string(got), "\""));
}

template <typename T>
bool ParseWhole(std::string_view text, T* value) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && rest == end;
}

template <typename T>
absl::Status ParseInteger(std::string_view text, T* value) {
  return ParseInRange(text, std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), value);
}

template <typename T>
absl::Status ParseReal(std::string_view text, T* value) {
  if (ParseWhole(text, value) && std::isfinite(*value)) return absl::OkStatus();
  return Expected("a finite number", text);
}

struct ByteUnit {
  std::string_view suffix;
  int shift;
};
constexpr ByteUnit kByteUnits[] = {{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}, {"B", 0}};

ByteUnit TakeUnit(std::string_view* text) {
  for (const ByteUnit& unit : kByteUnits) {
    if (!text->ends_with(unit.suffix)) continue;
    text->remove_suffix(unit.suffix.size());
    return unit;
  }
  return {"", 0};
}

std::string FlagAndValue(std::string_view name, std::string_view value_name) {
  return absl::StrCat("--", std::string(name), value_name.empty() ? "" : " ", std::string(value_name));
}

std::string HelpLine(std::string_view name, std::string_view value_name, std::string_view text, std::size_t width) {
  const std::string left = FlagAndValue(name, value_name);
  return absl::StrCat("  ", left, std::string(width - left.size() + 2, ' '), std::string(text), "\n");
}

absl::Status ParseSwitch(std::string_view text, bool* value) {
  if (text != "true" && text != "false") return Expected("true or false", text);
  *value = text == "true";
  return absl::OkStatus();
}

}  // namespace

template <typename T>
absl::Status ParseInRange(std::string_view text, T min, T max, T* value) {
  T parsed = 0;
  if (!ParseWhole(text, &parsed) || parsed < min || parsed > max) {
    return Expected(absl::StrCat("a whole number from ", min, " to ", max), text);
  }
  *value = parsed;
  return absl::OkStatus();
}

template absl::Status ParseInRange(std::string_view, std::int32_t, std::int32_t, std::int32_t*);
template absl::Status ParseInRange(std::string_view, std::uint32_t, std::uint32_t, std::uint32_t*);
template absl::Status ParseInRange(std::string_view, std::uint64_t, std::uint64_t, std::uint64_t*);

absl::Status ParseFlagValue(std::string_view text, std::string* value) {
  *value = text;
  return absl::OkStatus();
}

absl::Status ParseFlagValue(std::string_view text, std::int32_t* value) { return ParseInteger(text, value); }
absl::Status ParseFlagValue(std::string_view text, std::uint32_t* value) { return ParseInteger(text, value); }
absl::Status ParseFlagValue(std::string_view text, std::uint64_t* value) { return ParseInteger(text, value); }
absl::Status ParseFlagValue(std::string_view text, float* value) { return ParseReal(text, value); }
absl::Status ParseFlagValue(std::string_view text, double* value) { return ParseReal(text, value); }

absl::Status ParseFlagValue(std::string_view text, ByteSize* value) {
  std::string_view digits = text;
  const ByteUnit unit = TakeUnit(&digits);
  std::uint64_t count = 0;
  if (!ParseWhole(digits, &count) || count > std::numeric_limits<std::uint64_t>::max() >> unit.shift) {
    return Expected("a number of bytes (such as 1073741824, 512MiB or 2GiB)", text);
  }
  value->bytes = count << unit.shift;
  return absl::OkStatus();
}

absl::Status ParseFlagValue(std::string_view text, absl::Duration* value) {
  if (absl::ParseDuration(std::string(text), value) && *value >= absl::ZeroDuration()) return absl::OkStatus();
  return Expected("a duration with its unit (such as 250ms, 30s or 1m30s)", text);
}

absl::Status ParseFlagValue(std::string_view text, std::vector<std::uint32_t>* value) {
  value->clear();
  for (std::string_view rest = text;;) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    if (!ParseWhole(rest.substr(0, comma), &value->emplace_back())) {
      return Expected("whole numbers with commas between them (such as 1,2,3)", text);
    }
    if (comma == rest.size()) return absl::OkStatus();
    rest.remove_prefix(comma + 1);
  }
}

std::string FormatFlagValue(const std::string& value) { return value; }
std::string FormatFlagValue(std::int32_t value) { return absl::StrCat(value); }
std::string FormatFlagValue(std::uint32_t value) { return absl::StrCat(value); }
std::string FormatFlagValue(std::uint64_t value) { return absl::StrCat(value); }
std::string FormatFlagValue(float value) { return absl::StrCat(value); }
std::string FormatFlagValue(double value) { return absl::StrCat(value); }
std::string FormatFlagValue(absl::Duration value) { return absl::FormatDuration(value); }

std::string FormatFlagValue(ByteSize value) {
  for (const ByteUnit& unit : kByteUnits) {
    const std::uint64_t count = value.bytes >> unit.shift;
    if (count > 0 && count << unit.shift == value.bytes) return absl::StrCat(count, std::string(unit.suffix));
  }
  return absl::StrCat(value.bytes);
}

FlagParser::FlagParser(std::string program, std::string summary)
    : program_(std::move(program)), summary_(std::move(summary)) {}

void FlagParser::AddParsed(std::string_view name, std::string_view value_name, std::string_view help,
                           std::function<absl::Status(std::string_view)> parse, std::string_view shown_default) {
  CHECK(Find(name) == nullptr) << "flag --" << name << " is declared twice";
  CHECK(name != "help" && name != "version") << "every program has --" << name;
  flags_.push_back({.name = std::string(name),
                    .value_name = std::string(value_name),
                    .help = std::string(help),
                    .shown_default = std::string(shown_default),
                    .group = groups_.back(),
                    .parse = std::move(parse)});
}

void FlagParser::AddRepeated(std::string_view name, std::string_view value_name, std::string_view help,
                             std::vector<std::string>* target) {
  AddParsed(name, value_name, absl::StrCat(std::string(help), "; may be repeated"), [target](std::string_view text) {
    target->emplace_back(text);
    return absl::OkStatus();
  });
}

void FlagParser::BeginGroup(std::string_view title) {
  CHECK(std::find(groups_.begin(), groups_.end(), title) == groups_.end()) << "group " << title << " is begun twice";
  groups_.emplace_back(title);
}

void FlagParser::AddSwitch(std::string_view name, std::string_view help, bool* target) {
  AddParsed(
      name, "", help, [target](std::string_view text) { return ParseSwitch(text, target); }, *target ? "true" : "");
}

const FlagParser::Flag* FlagParser::Find(std::string_view name) const {
  const auto found = std::find_if(flags_.begin(), flags_.end(), [&](const Flag& f) { return f.name == name; });
  return found == flags_.end() ? nullptr : &*found;
}

absl::Status FlagParser::CheckRequired(const std::vector<std::string>& seen) const {
  for (const Flag& flag : flags_) {
    if (!flag.required || std::find(seen.begin(), seen.end(), flag.name) != seen.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat("--", flag.name, " ", flag.value_name, " is required: ", flag.help));
  }
  return absl::OkStatus();
}

absl::StatusOr<const FlagParser::Flag*> FlagParser::FindOrError(const std::string& argument) const {
  const std::size_t equals = std::min(argument.find('='), argument.size());
  const Flag* const flag = argument.starts_with("--") ? Find(argument.substr(2, equals - 2)) : nullptr;
  if (flag != nullptr) return flag;
  return absl::InvalidArgumentError(
      absl::StrCat(argument.starts_with("-") ? "unknown flag" : "unexpected argument", " \"", argument, "\""));
}

absl::StatusOr<ParsedFlags> FlagParser::Parse(const std::vector<std::string>& arguments) const {
  std::vector<std::string> seen;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--help" || argument == "-h") return ParsedFlags::kShowHelp;
    if (argument == "--version") return ParsedFlags::kShowVersion;
    ASSIGN_OR_RETURN(const Flag* const flag, FindOrError(argument));
    std::string value = "true";
    if (const std::size_t equals = argument.find('='); equals != std::string::npos) {
      value = argument.substr(equals + 1);
    } else if (!flag->value_name.empty()) {
      if (++i == arguments.size()) {
        return absl::InvalidArgumentError(absl::StrCat("--", flag->name, " needs a value (", flag->value_name, ")"));
      }
      value = arguments[i];
    }
    if (const absl::Status status = flag->parse(value); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--", flag->name, ": ", std::string(status.message())));
    }
    seen.push_back(flag->name);
  }
  RETURN_IF_ERROR(CheckRequired(seen));
  return ParsedFlags::kRun;
}

std::string FlagParser::HelpOf(std::string_view group, std::size_t width) const {
  std::string help = absl::StrCat("\n", std::string(group), ":\n");
  for (const Flag& flag : flags_) {
    if (flag.group != group) continue;
    std::string text = flag.help;
    if (flag.required) absl::StrAppend(&text, " (required)");
    if (!flag.shown_default.empty()) absl::StrAppend(&text, " (default ", flag.shown_default, ")");
    absl::StrAppend(&help, HelpLine(flag.name, flag.value_name, text, width));
  }
  return help;
}

std::string FlagParser::Help() const {
  std::size_t width = std::string_view("--version").size();
  for (const Flag& flag : flags_) width = std::max(width, FlagAndValue(flag.name, flag.value_name).size());
  std::string help =
      absl::StrCat(program_, ": ", summary_, "\n", HelpOf(groups_.front(), width),
                   HelpLine("help", "", "show this text", width), HelpLine("version", "", "show the version", width));
  for (std::size_t i = 1; i < groups_.size(); ++i) absl::StrAppend(&help, HelpOf(groups_[i], width));
  return help;
}

std::optional<int> ParseOrExit(const FlagParser& flags, const std::vector<std::string>& arguments, std::ostream& out,
                               std::ostream& err) {
  const absl::StatusOr<ParsedFlags> parsed = flags.Parse(arguments);
  if (!parsed.ok()) {
    err << flags.program() << ": " << parsed.status().message() << "\nSee " << flags.program() << " --help.\n";
    return 2;
  }
  switch (*parsed) {
    case ParsedFlags::kRun:
      return std::nullopt;
    case ParsedFlags::kShowHelp:
      out << flags.Help();
      return 0;
    case ParsedFlags::kShowVersion:
      out << "trireme " << BuildId() << "\n";
      return 0;
  }
  CHECK(false) << "unknown ParsedFlags " << static_cast<int>(*parsed);
  return 2;
}

std::optional<int> ParseOrExit(const FlagParser& flags, const std::vector<std::string>& arguments) {
  return ParseOrExit(flags, arguments, std::cout, std::cerr);
}

}  // namespace trireme
