#include "client/bench/interference.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "client/bench/call_group.h"
#include "client/bench/gap_split.h"
#include "client/bench/latency_table.h"
#include "client/bench/workload.h"

namespace trireme::client {
namespace {

LengthDistribution Fixed(std::uint32_t length) { return {.min = length, .max = length}; }

absl::Status CheckContext(const InterferenceOptions& options, std::uint32_t max_model_len) {
  const std::uint32_t needed = std::max(options.joining_len, options.stream_input_len) + 1;
  if (needed <= max_model_len) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a prompt of ", needed - 1, " tokens and one of output need ", needed,
                                                 ", the server takes ", max_model_len,
                                                 " (trireme-server --max-model-len)"));
}

// The first failure among them, or OK.
absl::Status FirstFailure(const std::vector<RequestRecord>& records) {
  for (const RequestRecord& record : records) {
    if (record.outcome == Outcome::kFailed) return record.status;
  }
  return absl::OkStatus();
}

// The run, while it runs.
class Run {
 public:
  Run(const InterferenceOptions& options, Workload streams, Workload joining, v1::InferenceService::Stub* stub)
      : options_(options),
        stream_workload_(std::move(streams)),
        joining_workload_(std::move(joining)),
        streams_(stub, clock_),
        joining_(stub, clock_) {}

  void Interrupt() {
    streams_.Interrupt();
    joining_.Interrupt();
  }

  absl::Status BeginStreams() {
    for (std::uint32_t i = 0; i < options_.streams; ++i) {
      streams_.Start(stream_workload_.Plan(i).request, {.timeout = options_.timeout});
    }
    const GroupProgress progress =
        streams_.WaitUntil([&](const GroupProgress& now) { return HasEnded(now) || now.begun == options_.streams; },
                           absl::InfiniteFuture());  // they end by their timeout
    measured_.begin = clock_.Now();
    return CheckStreams(progress);
  }

  absl::Status BeQuiet() {
    const absl::Time end = clock_.ToWallTime(clock_.Now() + options_.quiet);
    const GroupProgress progress = streams_.WaitUntil(HasEnded, end);
    measured_.end = clock_.Now();
    return CheckStreams(progress);
  }

  // One long prompt, from its sending to its token. Planned as a warm-up, so that it begins as no stream's prompt does.
  absl::Status Join(std::uint32_t number) {
    joining_.Start(joining_workload_.PlanWarmup(number).request, {.due = clock_.Now(), .timeout = options_.timeout});
    joining_.WaitUntilAllEnded();
    const std::vector<RequestRecord> records = joining_.TakeRecords();
    RETURN_IF_ERROR(FirstFailure(records));
    const RequestRecord& record = records.front();
    if (record.outcome != Outcome::kFinished) return absl::CancelledError("the run was interrupted");
    if (record.arrivals.empty()) return absl::DataLossError("the joining request ended with no token");
    if (record.cached_tokens > 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("the server had ", record.cached_tokens, " tokens of the joining prompt in its prefix cache"));
    }
    windows_.push_back({.begin = record.sent, .end = record.arrivals.front().at});
    return CheckStreams(streams_.WaitUntil([](const GroupProgress&) { return true; }, absl::InfinitePast()));
  }

  absl::StatusOr<InterferenceReport> EndStreams() {
    streams_.Interrupt();
    streams_.WaitUntilAllEnded();
    SplitGaps gaps = SplitInterTokenGaps(streams_.TakeRecords(), windows_, measured_);
    if (gaps.alone.empty() || gaps.beside.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(gaps.alone.size(), " gaps between tokens without and ",
                                                        gaps.beside.size(),
                                                        " while a prompt joined: too few to compare"));
    }
    std::vector<double> ttft;
    for (const TimeWindow& window : windows_) ttft.push_back(absl::ToDoubleMilliseconds(window.end - window.begin));
    return InterferenceReport{.alone = Summarize(std::move(gaps.alone)),
                              .beside = Summarize(std::move(gaps.beside)),
                              .joining_ttft = Summarize(std::move(ttft))};
  }

 private:
  static bool HasEnded(const GroupProgress& progress) { return progress.is_interrupted || progress.ended > 0; }

  absl::Status CheckStreams(const GroupProgress& progress) {
    if (progress.is_interrupted) return absl::CancelledError("the run was interrupted");
    if (progress.ended == 0) return absl::OkStatus();
    RETURN_IF_ERROR(FirstFailure(streams_.TakeRecords()));
    return absl::FailedPreconditionError(
        absl::StrCat("a stream came to the end of its context when ", windows_.size(), " of ", options_.joins,
                     " prompts had joined: let fewer join (--joins), be quiet for less long (--quiet), or serve with a "
                     "larger --max-model-len"));
  }

  const InterferenceOptions options_;
  const Workload stream_workload_;
  const Workload joining_workload_;
  const RunClock clock_;
  CallGroup streams_;
  CallGroup joining_;
  std::vector<TimeWindow> windows_;  // while a prompt joined
  TimeWindow measured_;
};

absl::StatusOr<InterferenceReport> Measure(Run& run, const InterferenceOptions& options) {
  RETURN_IF_ERROR(run.BeginStreams());
  for (std::uint32_t i = 0; i < options.joins; ++i) {
    RETURN_IF_ERROR(run.BeQuiet());
    RETURN_IF_ERROR(run.Join(i));
  }
  RETURN_IF_ERROR(run.BeQuiet());
  return run.EndStreams();
}

}  // namespace

absl::StatusOr<InterferenceReport> MeasureInterference(
    const InterferenceOptions& options, const v1::GetModelInfoResponse& model, v1::InferenceService::Stub* stub,
    const std::function<void(std::function<void()> interrupt)>& set_interrupt) {
  RETURN_IF_ERROR(CheckContext(options, model.max_model_len()));
  const std::string salt = MakeCacheSalt();
  ASSIGN_OR_RETURN(Workload streams,
                   Workload::Make({.input_len = Fixed(options.stream_input_len),
                                   .output_len = Fixed(model.max_model_len() - options.stream_input_len),
                                   .seed = options.seed,
                                   .cache_salt = salt},
                                  model));
  ASSIGN_OR_RETURN(
      Workload joining,
      Workload::Make(
          {.input_len = Fixed(options.joining_len), .output_len = Fixed(1), .seed = options.seed, .cache_salt = salt},
          model));
  Run run(options, std::move(streams), std::move(joining), stub);
  set_interrupt([&run] { run.Interrupt(); });
  absl::StatusOr<InterferenceReport> report = Measure(run, options);
  set_interrupt(nullptr);
  return report;
}

std::string ShowInterference(const BenchTarget& target, const InterferenceOptions& options,
                             const InterferenceReport& report) {
  return absl::StrCat(
      "Server       ", ShowTarget(target), "\nStreams      ", options.streams, ", with prompts of ",
      options.stream_input_len, " tokens\nJoining      ", options.joins, " prompts of ", options.joining_len,
      " tokens, one at a time, ", absl::FormatDuration(options.quiet), " between them\n\n",
      ShowLatencies({{"Between tokens, alone", report.alone},
                     {"while a prompt joins", report.beside},
                     {"Until it has its token", report.joining_ttft}}),
      absl::StrFormat("\np99 between tokens while a prompt joins: %.2f times that without\n", report.p99_ratio()));
}

std::string InterferenceJson(const BenchTarget& target, const InterferenceOptions& options,
                             const InterferenceReport& report) {
  const nlohmann::ordered_json json = {{"benchmark", "interference"},
                                       {"client_build_id", std::string(BuildId())},
                                       {"server", TargetJson(target)},
                                       {"workload",
                                        {{"streams", options.streams},
                                         {"stream_input_len", options.stream_input_len},
                                         {"joining_len", options.joining_len},
                                         {"joins", options.joins},
                                         {"quiet_s", absl::ToDoubleSeconds(options.quiet)},
                                         {"seed", options.seed}}},
                                       {"itl_alone_ms", SummaryJson(report.alone)},
                                       {"itl_beside_ms", SummaryJson(report.beside)},
                                       {"joining_ttft_ms", SummaryJson(report.joining_ttft)},
                                       {"p99_ratio", report.p99_ratio()}};
  return json.dump(2) + "\n";
}

}  // namespace trireme::client
