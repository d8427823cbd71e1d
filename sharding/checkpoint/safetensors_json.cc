#include "sharding/checkpoint/safetensors_json.h"

#include <limits>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "sharding/checkpoint/error_text.h"

namespace trireme::sharding {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::size_t kMaxDimensions = 64;

std::optional<DType> DTypeFromName(std::string_view name) {
  for (auto dtype = DType::kF64; dtype <= DType::kF4; dtype = static_cast<DType>(static_cast<int>(dtype) + 1)) {
    if (TraitsOf(dtype).name == name) return dtype;
  }
  return std::nullopt;
}

// Receives the events of nlohmann's parser. A method that returns false ends the parse; `error()` then says why.
class HeaderHandler final : public nlohmann::json_sax<Json> {
 public:
  SafetensorsJson Take() && { return std::move(result_); }
  const std::string& error() const { return error_; }

  bool null() override { return Scalar("null"); }
  bool boolean(bool) override { return Scalar("a bool"); }
  bool number_float(double, const std::string& text) override { return Scalar(Quoted(text)); }
  bool binary(Json::binary_t&) override { return Scalar("binary data"); }
  bool number_integer(std::int64_t value) override { return Scalar(absl::StrCat(value)); }
  bool number_unsigned(std::uint64_t value) override;
  bool string(std::string& value) override;
  bool start_object(std::size_t) override;
  bool key(std::string& name) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string&, const Json::exception& problem) override;

 private:
  enum class State { kStart, kTop, kEntry, kNumbers, kMetadata, kSkip, kEnd };
  enum class Field { kNone, kDType, kShape, kDataOffsets, kOther };

  bool Fail(std::string what);
  bool Scalar(std::string_view got);
  bool BeginEntry();
  bool EndEntry();
  bool EnterSkip();
  bool LeaveSkip();
  bool SetField(std::string_view name);
  std::string Where() const;

  SafetensorsJson result_;
  std::string error_;
  std::set<std::string> names_;
  State state_ = State::kStart;
  int skip_depth_ = 0;  // of what is nested in a field that is skipped
  std::string name_;    // of the entry or of the key in the metadata
  SafetensorsEntry entry_;
  Field field_ = Field::kNone;
  std::set<Field> seen_;
  std::vector<std::int64_t> numbers_;
};

bool HeaderHandler::Fail(std::string what) {
  error_ = std::move(what);
  return false;
}

std::string HeaderHandler::Where() const {
  if (state_ == State::kStart) return "the header";
  if (state_ == State::kTop) return absl::StrCat("tensor ", Quoted(name_));
  if (state_ == State::kMetadata) return absl::StrCat("__metadata__ ", Quoted(name_));
  const char* field = field_ == Field::kDType ? " dtype" : field_ == Field::kShape ? " shape" : " data_offsets";
  return absl::StrCat("tensor ", Quoted(entry_.name), field_ == Field::kNone ? "" : field);
}

// Anything of which no place wants the value.
bool HeaderHandler::Scalar(std::string_view got) {
  if (state_ == State::kSkip) return skip_depth_ > 0 || LeaveSkip();
  const char* wanted = state_ == State::kNumbers    ? "an integer in [0, 2^63)"
                       : state_ == State::kMetadata ? "a string"
                       : field_ == Field::kDType    ? "a string"
                       : field_ == Field::kNone     ? "an object"
                                                    : "a list of integers";
  return Fail(absl::StrCat(Where(), " is ", std::string(got), ", expected ", wanted));
}

bool HeaderHandler::number_unsigned(std::uint64_t value) {
  if (state_ != State::kNumbers || value > std::numeric_limits<std::int64_t>::max()) return Scalar(absl::StrCat(value));
  const std::size_t limit = field_ == Field::kDataOffsets ? 2 : kMaxDimensions;
  if (numbers_.size() == limit) return Fail(absl::StrCat(Where(), " has more than ", limit, " numbers"));
  numbers_.push_back(static_cast<std::int64_t>(value));
  return true;
}

bool HeaderHandler::string(std::string& value) {
  if (state_ == State::kMetadata) {
    result_.metadata[name_] = std::move(value);
    return true;
  }
  if (state_ != State::kEntry || field_ != Field::kDType) return Scalar(Quoted(value));
  const std::optional<DType> dtype = DTypeFromName(value);
  if (!dtype.has_value()) return Fail(absl::StrCat(Where(), " ", Quoted(value), " is not known"));
  entry_.dtype = *dtype;
  return true;
}

bool HeaderHandler::start_object(std::size_t) {
  switch (state_) {
    case State::kStart:
      state_ = State::kTop;
      return true;
    case State::kTop:
      return BeginEntry();
    case State::kSkip:
      return EnterSkip();
    default:
      return Scalar("an object");
  }
}

bool HeaderHandler::BeginEntry() {
  if (name_ == kMetadataKey) {
    state_ = State::kMetadata;
    return true;
  }
  state_ = State::kEntry;
  entry_ = SafetensorsEntry{.name = name_};
  field_ = Field::kNone;
  seen_.clear();
  return true;
}

bool HeaderHandler::key(std::string& name) {
  switch (state_) {
    case State::kTop:
      name_ = name;
      return names_.insert(name).second || Fail(absl::StrCat("tensor ", Quoted(name), " comes twice"));
    case State::kMetadata:
      name_ = name;
      return !result_.metadata.contains(name) || Fail(absl::StrCat("__metadata__ ", Quoted(name), " comes twice"));
    case State::kEntry:
      return SetField(name);
    default:
      return true;
  }
}

bool HeaderHandler::SetField(std::string_view name) {
  field_ = name == "dtype"          ? Field::kDType
           : name == "shape"        ? Field::kShape
           : name == "data_offsets" ? Field::kDataOffsets
                                    : Field::kOther;
  if (field_ == Field::kOther) {
    state_ = State::kSkip;
    skip_depth_ = 0;
    return true;
  }
  return seen_.insert(field_).second || Fail(absl::StrCat(Where(), " comes twice"));
}

bool HeaderHandler::EnterSkip() {
  ++skip_depth_;
  return true;
}

// After the value that is skipped: back to the entry's fields.
bool HeaderHandler::LeaveSkip() {
  state_ = State::kEntry;
  return true;
}

bool HeaderHandler::end_object() {
  switch (state_) {
    case State::kSkip:
      return --skip_depth_ > 0 || LeaveSkip();
    case State::kEntry:
      return EndEntry();
    case State::kMetadata:
      state_ = State::kTop;
      return true;
    default:
      state_ = State::kEnd;
      return true;
  }
}

bool HeaderHandler::EndEntry() {
  field_ = Field::kNone;
  for (const auto& [field, name] : {std::pair{Field::kDType, "dtype"}, std::pair{Field::kShape, "shape"},
                                    std::pair{Field::kDataOffsets, "data_offsets"}}) {
    if (!seen_.contains(field)) return Fail(absl::StrCat(Where(), " has no ", name));
  }
  result_.entries.push_back(std::move(entry_));
  state_ = State::kTop;
  return true;
}

bool HeaderHandler::start_array(std::size_t) {
  if (state_ == State::kSkip) return EnterSkip();
  if (state_ != State::kEntry || field_ == Field::kDType) return Scalar("a list");
  state_ = State::kNumbers;
  numbers_.clear();
  return true;
}

bool HeaderHandler::end_array() {
  if (state_ == State::kSkip) return --skip_depth_ > 0 || LeaveSkip();
  state_ = State::kEntry;
  if (field_ == Field::kShape) {
    entry_.shape = std::move(numbers_);
    return true;
  }
  if (numbers_.size() != 2) return Fail(absl::StrCat(Where(), " has ", numbers_.size(), " numbers, expected 2"));
  entry_.data_offsets = {numbers_[0], numbers_[1]};
  return true;
}

bool HeaderHandler::parse_error(std::size_t position, const std::string&, const Json::exception& problem) {
  return Fail(absl::StrCat("not valid JSON at byte ", position, ": ", Quoted(problem.what())));
}

}  // namespace

absl::StatusOr<SafetensorsJson> ParseSafetensorsJson(std::string_view text) {
  // nlohmann's parser takes a zero byte for the end and would not look at what follows.
  const std::size_t zero = text.find('\0');
  if (zero != std::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat("not valid JSON at byte ", zero, ": a zero byte"));
  }
  HeaderHandler handler;
  if (Json::sax_parse(text.begin(), text.end(), &handler)) return std::move(handler).Take();
  return absl::InvalidArgumentError(handler.error());
}

}  // namespace trireme::sharding
