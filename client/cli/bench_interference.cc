// `trireme bench interference`.
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/flags.h"
#include "base/status_macros.h"
#include "client/bench/interference.h"
#include "client/cli/bench_connection.h"
#include "client/cli/call_flags.h"
#include "client/cli/commands.h"
#include "client/cli/interrupt.h"

namespace trireme::client {
namespace {

constexpr char kProgram[] = "trireme bench interference";

struct Flags {
  TargetFlags target;
  InterferenceOptions interference;
  std::optional<double> max_ratio;
  bool json = false;
};

FlagParser DeclareFlags(Flags* options) {
  InterferenceOptions& measured = options->interference;
  FlagParser flags(kProgram, "measures how much a long prompt that joins slows running streams");
  options->target.DeclareTarget(flags);
  flags.AddInRange<std::uint32_t>("streams", "N", "streams that run all the time", 1, 10000, &measured.streams);
  flags.AddInRange<std::uint32_t>("stream-input-len", "N", "tokens of their prompts", 1, 1 << 24,
                                  &measured.stream_input_len);
  flags.AddInRange<std::uint32_t>("joining-len", "N", "tokens of the prompts that join", 1, 1 << 24,
                                  &measured.joining_len);
  flags.AddInRange<std::uint32_t>("joins", "N", "prompts that join, one at a time", 1, 10000, &measured.joins);
  flags.Add("quiet", "TIME", "before each of them, and at the end", &measured.quiet);
  flags.Add("seed", "N", "the same seed makes the same prompts", &measured.seed);
  flags.Add("timeout", "TIME", "of each request, the streams included", &measured.timeout);
  flags.Add("max-ratio", "X", "fail if the p99 between tokens grows more than this many times", &options->max_ratio);
  flags.AddSwitch("json", "one JSON object instead of a table", &options->json);
  options->target.DeclareConnection(flags);
  return flags;
}

struct Measured {
  BenchTarget target;
  InterferenceReport report;
};

absl::StatusOr<Measured> Measure(const InterferenceOptions& options, const ClientOptions& client_options) {
  InterruptWatcher watcher;
  ASSIGN_OR_RETURN(const BenchConnection connection, ConnectForBench(client_options, watcher));
  ASSIGN_OR_RETURN(
      const InterferenceReport report,
      MeasureInterference(options, connection.target.model, connection.stub.get(),
                          [&](std::function<void()> interrupt) { watcher.SetHandler(std::move(interrupt)); }));
  return Measured{.target = connection.target, .report = report};
}

absl::Status CheckRatio(const Flags& options, double ratio) {
  if (!options.max_ratio || ratio <= *options.max_ratio) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("the p99 grows ", ratio, " times, at most ", *options.max_ratio, " (--max-ratio) is allowed"));
}

}  // namespace

int RunBenchInterference(const Arguments& arguments, Terminal& terminal) {
  Flags options;
  const FlagParser flags = DeclareFlags(&options);
  if (const auto status = ParseOrExit(flags, arguments, terminal.out, terminal.err)) return *status;
  const absl::StatusOr<ClientOptions> client_options = options.target.ReadClientOptions();
  if (!client_options.ok()) return ReportUsage(kProgram, client_options.status(), terminal);

  const absl::StatusOr<Measured> measured = Measure(options.interference, *client_options);
  if (!measured.ok()) return ReportFailure(kProgram, measured.status(), terminal);
  const auto& [target, report] = *measured;
  terminal.out << (options.json ? InterferenceJson(target, options.interference, report)
                                : ShowInterference(target, options.interference, report))
               << std::flush;
  const absl::Status status = CheckRatio(options, report.p99_ratio());
  return status.ok() ? kExitOk : ReportFailure(kProgram, status, terminal);
}

}  // namespace trireme::client
