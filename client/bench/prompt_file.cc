#include "client/bench/prompt_file.h"

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace trireme::client {
namespace {

using nlohmann::json;

absl::StatusOr<std::uint32_t> ParseNumber(const json& value, const char* what, std::uint32_t min) {
  constexpr std::uint32_t kMax = std::numeric_limits<std::uint32_t>::max();
  if (value.is_number_unsigned() && value.get<std::uint64_t>() >= min && value.get<std::uint64_t>() <= kMax) {
    return value.get<std::uint32_t>();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", what, ", a whole number from ", min, " to ", kMax, ", got ", value.dump()));
}

absl::Status ParsePrompt(const json& value, FilePrompt* prompt) {
  if (value.is_string()) {
    prompt->prompt = value.get<std::string>();
    return absl::OkStatus();
  }
  if (!value.is_array()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected \"prompt\", a text or an array of token ids, got ", value.type_name()));
  }
  std::vector<std::uint32_t> ids;
  for (const json& element : value) {
    ASSIGN_OR_RETURN(const std::uint32_t id, ParseNumber(element, "a token id", 0));
    ids.push_back(id);
  }
  prompt->prompt = std::move(ids);
  return absl::OkStatus();
}

absl::StatusOr<FilePrompt> ParseObject(const json& line) {
  if (!line.is_object() || !line.contains("prompt")) {
    return absl::InvalidArgumentError("expected a JSON object with \"prompt\"");
  }
  FilePrompt prompt;
  for (const auto& [key, value] : line.items()) {
    if (key == "prompt") {
      RETURN_IF_ERROR(ParsePrompt(value, &prompt));
    } else if (key == "output_tokens") {
      ASSIGN_OR_RETURN(prompt.output_tokens, ParseNumber(value, "\"output_tokens\"", 1));
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown key \"", key, "\"; expected \"prompt\" or \"output_tokens\""));
    }
  }
  return prompt;
}

absl::StatusOr<FilePrompt> ParseLine(const std::string& line) {
  try {
    return ParseObject(json::parse(line));
  } catch (const json::exception& error) {  // no JSON, or text that is no UTF-8
    return absl::InvalidArgumentError(error.what());
  }
}

}  // namespace

absl::StatusOr<std::vector<FilePrompt>> ReadPromptFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": cannot be opened"));
  std::vector<FilePrompt> prompts;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    absl::StatusOr<FilePrompt> prompt = ParseLine(line);
    if (!prompt.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ", line ", number, ": ", std::string(prompt.status().message())));
    }
    prompts.push_back(*std::move(prompt));
  }
  if (file.bad()) return absl::DataLossError(absl::StrCat(path, ": cannot be read to its end"));
  if (prompts.empty()) return absl::InvalidArgumentError(absl::StrCat(path, " holds no prompt"));
  return prompts;
}

}  // namespace trireme::client
