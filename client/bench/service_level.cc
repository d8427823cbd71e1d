#include "client/bench/service_level.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/flags.h"

namespace trireme::client {
namespace {

bool IsWithin(std::optional<absl::Duration> value, std::optional<absl::Duration> bound) {
  return !value.has_value() || !bound.has_value() || *value <= *bound;
}

std::optional<absl::Duration>* Find(std::string_view name, ServiceLevel* level) {
  if (name == "ttft") return &level->ttft;
  if (name == "itl") return &level->itl;
  if (name == "tpot") return &level->tpot;
  return name == "e2e" ? &level->e2e : nullptr;
}

// "ttft:500". Whether it is one, and the first of its name.
bool ParseBound(std::string_view text, ServiceLevel* level) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return false;
  std::optional<absl::Duration>* const bound = Find(text.substr(0, colon), level);
  double milliseconds = 0;
  if (bound == nullptr || bound->has_value() || !trireme::ParseFlagValue(text.substr(colon + 1), &milliseconds).ok()) {
    return false;
  }
  *bound = absl::Milliseconds(milliseconds);
  return milliseconds > 0;
}

}  // namespace

bool Meets(const RequestRecord& record, const ServiceLevel& level) {
  if (record.outcome != Outcome::kFinished) return false;
  const std::vector<absl::Duration> gaps = InterTokenGaps(record);
  return IsWithin(TimeToFirstToken(record), level.ttft) && IsWithin(TimePerOutputToken(record), level.tpot) &&
         IsWithin(EndToEnd(record), level.e2e) &&
         std::all_of(gaps.begin(), gaps.end(), [&](absl::Duration gap) { return IsWithin(gap, level.itl); });
}

absl::Status ParseFlagValue(std::string_view text, ServiceLevel* value) {
  ServiceLevel level;
  for (const absl::string_view bound : absl::StrSplit(absl::string_view(text.data(), text.size()), ',')) {
    if (ParseBound({bound.data(), bound.size()}, &level)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "expected bounds in milliseconds, each above 0 and each of ttft, itl, tpot and e2e at most once, such as "
        "ttft:500,itl:50, got \"",
        std::string(text), "\""));
  }
  *value = level;
  return absl::OkStatus();
}

std::string FormatFlagValue(const ServiceLevel& value) {
  std::vector<std::string> bounds;
  const auto add = [&](std::string_view name, std::optional<absl::Duration> bound) {
    if (bound) bounds.push_back(absl::StrCat(std::string(name), ":", absl::ToDoubleMilliseconds(*bound)));
  };
  add("ttft", value.ttft);
  add("itl", value.itl);
  add("tpot", value.tpot);
  add("e2e", value.e2e);
  return absl::StrJoin(bounds, ",");
}

}  // namespace trireme::client
