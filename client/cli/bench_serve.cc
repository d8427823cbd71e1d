// `trireme bench serve`.
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/flags.h"
#include "base/status_macros.h"
#include "client/bench/serve_report.h"
#include "client/cli/bench_connection.h"
#include "client/cli/call_flags.h"
#include "client/cli/commands.h"
#include "client/cli/interrupt.h"

namespace trireme::client {
namespace {

constexpr char kProgram[] = "trireme bench serve";
constexpr std::uint32_t kMaxConcurrency = 100'000;
constexpr std::uint64_t kDefaultNumRequests = 100;

struct Flags {
  TargetFlags target;
  std::optional<double> request_rate;
  std::optional<double> burstiness;
  std::optional<std::uint32_t> concurrency;
  std::optional<absl::Duration> duration;
  std::optional<LengthDistribution> input_len;
  ServeOptions serve;
  bool json = false;
};

absl::Status ParseRate(std::string_view text, std::optional<double>* rate) {
  double value = std::numeric_limits<double>::infinity();
  if (text == "inf" || (trireme::ParseFlagValue(text, &value).ok() && value > 0)) {
    *rate = value;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("expected a number above 0, or inf, got \"", std::string(text), "\""));
}

// From `min` to `max`.
absl::Status ParseReal(std::string_view text, double min, double max, double* value) {
  double parsed = 0;
  if (trireme::ParseFlagValue(text, &parsed).ok() && parsed >= min && parsed <= max) {
    *value = parsed;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("expected a number from ", min, " to ", max, ", got \"", std::string(text), "\""));
}

void DeclarePace(FlagParser& flags, Flags* options) {
  flags.BeginGroup("When requests are sent: one of the first two");
  flags.AddParsed("request-rate", "R", "open loop: R requests a second on average, or inf: all at once",
                  [options](std::string_view text) { return ParseRate(text, &options->request_rate); });
  flags.AddParsed("concurrency", "N", "closed loop: N requests at a time, each followed by another",
                  [options](std::string_view text) {
                    return ParseInRange<std::uint32_t>(text, 1, kMaxConcurrency, &options->concurrency.emplace());
                  });
  flags.AddParsed(
      "burstiness", "B", "shape of the gamma distribution of an open loop's gaps; 1: Poisson arrivals, less: bursts",
      [options](std::string_view text) { return ParseReal(text, 0.01, 10000, &options->burstiness.emplace()); }, "1");
  flags.Add("num-requests", "N", "requests to send; default: 100, or with --duration any number",
            &options->serve.load.num_requests);
  flags.Add("duration", "TIME", "send for this much time, such as 1m, and then wait for what was sent",
            &options->duration);
  flags.Add("warmup", "N", "requests to send before, at once; they are not counted", &options->serve.warmup);
  flags.Add("timeout", "TIME", "of each request", &options->serve.load.timeout);
}

void DeclareWorkload(FlagParser& flags, Flags* options) {
  WorkloadOptions* const workload = &options->serve.workload;
  flags.BeginGroup("What is sent; lengths are N, uniform:MIN-MAX or lognormal:MEAN,STDDEV,MAX, in tokens");
  flags.Add("input-len", "LENGTH",
            absl::StrCat("of prompts, which are random token ids; default: ", FormatFlagValue(workload->input_len)),
            &options->input_len);
  flags.Add("prompts", "FILE", "prompts instead: lines of {\"prompt\": \"text\" or [ids], \"output_tokens\": N}",
            &options->serve.prompts_file);
  flags.Add("output-len", "LENGTH", "of outputs", &workload->output_len);
  flags.Add("seed", "N", "the same seed makes the same requests and arrivals", &workload->seed);
  flags.Add("temperature", "T", "0 takes the likeliest token each time", &workload->temperature);
  flags.AddSwitch("ignore-eos", "go on after the end of sequence", &workload->ignore_eos);
  flags.AddSwitch("stream", "--stream=false: whole answers, no time to first token", &workload->stream);
  flags.AddParsed(
      "cancel-share", "SHARE", "0 to 1: this many are cancelled amid their output",
      [workload](std::string_view text) { return ParseReal(text, 0, 1, &workload->cancel_share); }, "0");
}

FlagParser DeclareFlags(Flags* options) {
  FlagParser flags(kProgram, "measures throughput and latencies of a running server under a load");
  options->target.DeclareTarget(flags);
  flags.AddSwitch("json", "one JSON object instead of a table", &options->json);
  flags.Add("goodput", "BOUNDS",
            "also count the requests within bounds of ttft, itl, tpot, e2e in ms, such as ttft:500,itl:50",
            &options->serve.service_level);
  DeclarePace(flags, options);
  DeclareWorkload(flags, options);
  options->target.DeclareConnection(flags);
  return flags;
}

// What --stream=false cannot have.
absl::Status CheckUnary(const ServeOptions& serve) {
  if (serve.workload.stream) return absl::OkStatus();
  if (serve.workload.cancel_share > 0) {
    return absl::InvalidArgumentError("--cancel-share counts the tokens that have come, and needs --stream");
  }
  const ServiceLevel level = serve.service_level.value_or(ServiceLevel());
  if (level.ttft || level.itl || level.tpot) {
    return absl::InvalidArgumentError("--goodput: ttft, itl and tpot need --stream");
  }
  return absl::OkStatus();
}

absl::Status CompleteWorkload(Flags* options) {
  WorkloadOptions& workload = options->serve.workload;
  RETURN_IF_ERROR(CheckUnary(options->serve));
  workload.input_len = options->input_len.value_or(workload.input_len);
  if (options->serve.prompts_file.empty()) {
    workload.cache_salt = MakeCacheSalt();
    return absl::OkStatus();
  }
  if (options->input_len) return absl::InvalidArgumentError("expected --input-len or --prompts, not both");
  ASSIGN_OR_RETURN(workload.prompts, ReadPromptFile(options->serve.prompts_file));
  return absl::OkStatus();
}

// Flags that depend on each other, and the files they name.
absl::Status Complete(Flags* options) {
  LoadOptions& load = options->serve.load;
  if (options->request_rate.has_value() == options->concurrency.has_value()) {
    return absl::InvalidArgumentError("expected exactly one of --request-rate, --concurrency");
  }
  if (options->burstiness.has_value() && !options->request_rate.has_value()) {
    return absl::InvalidArgumentError("--burstiness is of --request-rate");
  }
  if (options->request_rate) load.arrivals = {*options->request_rate, options->burstiness.value_or(1)};
  load.concurrency = options->concurrency.value_or(load.concurrency);
  load.duration = options->duration.value_or(load.duration);
  if (!load.num_requests && !options->duration) load.num_requests = kDefaultNumRequests;
  if (!load.num_requests && load.arrivals && std::isinf(load.arrivals->requests_per_second)) {
    return absl::InvalidArgumentError("--request-rate inf needs --num-requests");
  }
  return CompleteWorkload(options);
}

// Ends `calls` at Ctrl-C, while it lives.
class InterruptedByCtrlC {
 public:
  InterruptedByCtrlC(InterruptWatcher& watcher, CallGroup& calls) : watcher_(watcher) {
    watcher_.SetHandler([&calls] { calls.Interrupt(); });
  }
  ~InterruptedByCtrlC() { watcher_.SetHandler(nullptr); }
  InterruptedByCtrlC(const InterruptedByCtrlC&) = delete;
  InterruptedByCtrlC& operator=(const InterruptedByCtrlC&) = delete;

 private:
  InterruptWatcher& watcher_;
};

// The first failure if none of the requests finished.
absl::Status WarmUp(const Workload& workload, const ServeOptions& options, v1::InferenceService::Stub* stub,
                    InterruptWatcher& watcher) {
  CallGroup calls(stub, RunClock());
  const InterruptedByCtrlC interrupted(watcher, calls);
  for (std::uint32_t i = 0; i < options.warmup; ++i) {
    calls.Start(workload.PlanWarmup(i).request, {.timeout = options.load.timeout});
  }
  if (calls.WaitUntilAllEnded().is_interrupted) return absl::CancelledError("interrupted while warming up");
  absl::Status failure;
  for (const RequestRecord& record : calls.TakeRecords()) {
    if (record.outcome == Outcome::kFinished) return absl::OkStatus();
    failure.Update(record.status);
  }
  return failure;
}

absl::StatusOr<ServeResult> Measure(const ServeOptions& options, const ClientOptions& client_options,
                                    InterruptWatcher& watcher) {
  ASSIGN_OR_RETURN(const BenchConnection connection, ConnectForBench(client_options, watcher));
  ASSIGN_OR_RETURN(const Workload workload, Workload::Make(options.workload, connection.target.model));
  RETURN_IF_ERROR(WarmUp(workload, options, connection.stub.get(), watcher));
  const RunClock clock;
  CallGroup calls(connection.stub.get(), clock);
  const InterruptedByCtrlC interrupted(watcher, calls);
  const LoadResult load = RunLoad(workload, options.load, options.workload.seed, clock, calls);
  return ServeResult{.target = connection.target,
                     .options = options,
                     .report = MakeLoadReport(load.records, options.service_level),
                     .is_interrupted = load.is_interrupted};
}

}  // namespace

int RunBenchServe(const Arguments& arguments, Terminal& terminal) {
  Flags options;
  const FlagParser flags = DeclareFlags(&options);
  if (const auto status = ParseOrExit(flags, arguments, terminal.out, terminal.err)) return *status;
  if (const absl::Status status = Complete(&options); !status.ok()) return ReportUsage(kProgram, status, terminal);
  const absl::StatusOr<ClientOptions> client_options = options.target.ReadClientOptions();
  if (!client_options.ok()) return ReportUsage(kProgram, client_options.status(), terminal);

  InterruptWatcher watcher;
  const absl::StatusOr<ServeResult> result = Measure(options.serve, *client_options, watcher);
  if (!result.ok()) return ReportFailure(kProgram, result.status(), terminal);
  terminal.out << (options.json ? ServeResultJson(*result) : ShowServeResult(*result)) << std::flush;
  return result->report.finished + result->report.cancelled > 0 ? kExitOk : kExitFailed;
}

}  // namespace trireme::client
