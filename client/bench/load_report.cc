#include "client/bench/load_report.h"

#include <algorithm>
#include <utility>

namespace trireme::client {
namespace {

// The latencies before they are summarized, in milliseconds.
struct Latencies {
  std::vector<double> ttft;
  std::vector<double> itl;
  std::vector<double> tpot;
  std::vector<double> e2e;
  std::vector<double> send_lag;
};

void Append(std::optional<absl::Duration> value, std::vector<double>& to) {
  if (value.has_value()) to.push_back(absl::ToDoubleMilliseconds(*value));
}

void AppendLatencies(const RequestRecord& record, Latencies& latencies) {
  Append(record.sent - record.due, latencies.send_lag);
  if (record.outcome != Outcome::kFinished) return;
  Append(TimeToFirstToken(record), latencies.ttft);
  for (const absl::Duration gap : InterTokenGaps(record)) Append(gap, latencies.itl);
  Append(TimePerOutputToken(record), latencies.tpot);
  Append(EndToEnd(record), latencies.e2e);
}

void CountError(const absl::Status& status, std::vector<ErrorCount>& errors) {
  auto found =
      std::find_if(errors.begin(), errors.end(), [&](const ErrorCount& error) { return error.code == status.code(); });
  if (found == errors.end()) {
    found = errors.insert(found, {.code = status.code(), .first_message = std::string(status.message())});
  }
  ++found->count;
}

void CountOutcome(const RequestRecord& record, LoadReport& report) {
  ++report.sent;
  switch (record.outcome) {
    case Outcome::kFinished:
      ++report.finished;
      break;
    case Outcome::kFailed:
      ++report.failed;
      CountError(record.status, report.errors);
      break;
    case Outcome::kCancelled:
      ++report.cancelled;
      break;
    case Outcome::kInterrupted:
      ++report.interrupted;
      break;
  }
}

void CountTokens(const RequestRecord& record, LoadReport& report) {
  if (record.output_tokens > 0) report.prompt_tokens += record.prompt_tokens;
  report.cached_tokens += record.cached_tokens;
  report.output_tokens += record.output_tokens;
}

}  // namespace

double LoadReport::PerSecond(std::uint64_t count) const {
  const double seconds = absl::ToDoubleSeconds(elapsed);
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

double LoadReport::GoodShare() const {
  const std::uint64_t candidates = finished + failed;
  return candidates > 0 ? static_cast<double>(good.value_or(0)) / static_cast<double>(candidates) : 0;
}

LoadReport MakeLoadReport(const std::vector<RequestRecord>& records, const std::optional<ServiceLevel>& service_level) {
  LoadReport report;
  Latencies latencies;
  if (service_level.has_value()) report.good = 0;
  for (const RequestRecord& record : records) {
    CountOutcome(record, report);
    CountTokens(record, report);
    AppendLatencies(record, latencies);
    report.elapsed = std::max(report.elapsed, record.ended);
    if (service_level.has_value() && Meets(record, *service_level)) ++*report.good;
  }
  std::stable_sort(report.errors.begin(), report.errors.end(),
                   [](const ErrorCount& a, const ErrorCount& b) { return a.count > b.count; });
  report.ttft = Summarize(std::move(latencies.ttft));
  report.itl = Summarize(std::move(latencies.itl));
  report.tpot = Summarize(std::move(latencies.tpot));
  report.e2e = Summarize(std::move(latencies.e2e));
  report.send_lag = Summarize(std::move(latencies.send_lag));
  return report;
}

}  // namespace trireme::client
