#include "client/cli/bench_connection.h"

#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "client/channel.h"

namespace trireme::client {
namespace {

absl::StatusOr<BenchTarget> Ask(const ClientOptions& options, InterruptWatcher& watcher) {
  InferenceClient client(options);
  Cancellation cancellation;
  watcher.SetHandler([&] { cancellation.Cancel(); });
  absl::StatusOr<BenchTarget> target =
      AskTarget(options.target, client, {.deadline = absl::Now() + absl::Seconds(10), .cancellation = &cancellation});
  watcher.SetHandler(nullptr);
  return target;
}

}  // namespace

absl::StatusOr<BenchConnection> ConnectForBench(const ClientOptions& options, InterruptWatcher& watcher) {
  ASSIGN_OR_RETURN(BenchTarget target, Ask(options, watcher));
  return BenchConnection{.target = std::move(target), .stub = v1::InferenceService::NewStub(MakeChannel(options))};
}

}  // namespace trireme::client
