// `trireme health`.
#include "base/flags.h"
#include "client/cli/call_flags.h"
#include "client/cli/commands.h"
#include "client/inference_client.h"

namespace trireme::client {
namespace {

using grpc::health::v1::HealthCheckResponse;

constexpr char kProgram[] = "trireme health";

struct Options {
  TargetFlags target;
  std::string service;
  bool watch = false;
};

FlagParser DeclareFlags(Options* options) {
  FlagParser flags(kProgram, "asks whether a server is ready; exit status 0: SERVING");
  options->target.Declare(flags);
  flags.Add("service", "NAME", "a service's name; empty: the server as a whole", &options->service);
  flags.AddSwitch("watch", "go on, and print each change, until Ctrl-C", &options->watch);
  options->target.DeclareConnection(flags);
  return flags;
}

void Print(const HealthCheckResponse& response, Terminal& terminal) {
  terminal.out << HealthCheckResponse::ServingStatus_Name(response.status()) << "\n" << std::flush;
}

int Watch(InferenceClient& client, const Options& options, Terminal& terminal) {
  const absl::Status status =
      client.WatchHealth(options.service, options.target.call_options(),
                         [&](const HealthCheckResponse& response) { Print(response, terminal); });
  return status.ok() ? kExitOk : ReportFailure(kProgram, status, terminal);
}

int Check(InferenceClient& client, const Options& options, Terminal& terminal) {
  const absl::StatusOr<HealthCheckResponse> response =
      client.CheckHealth(options.service, options.target.call_options());
  if (!response.ok()) return ReportFailure(kProgram, response.status(), terminal);
  Print(*response, terminal);
  return response->status() == HealthCheckResponse::SERVING ? kExitOk : kExitFailed;
}

}  // namespace

int RunHealth(const Arguments& arguments, Terminal& terminal) {
  Options options;
  const FlagParser flags = DeclareFlags(&options);
  if (const auto status = ParseOrExit(flags, arguments, terminal.out, terminal.err)) return *status;
  const absl::StatusOr<ClientOptions> client_options = options.target.ReadClientOptions();
  if (!client_options.ok()) return ReportUsage(kProgram, client_options.status(), terminal);
  InferenceClient client(*client_options);
  if (options.watch) return Watch(client, options, terminal);
  if (!options.target.timeout.has_value()) options.target.timeout = absl::Seconds(5);
  return Check(client, options, terminal);
}

}  // namespace trireme::client
