// What the benchmarks have in common: a server that has answered, and a stub for asynchronous calls.
#pragma once
#include <memory>

#include "absl/status/statusor.h"
#include "client/bench/bench_target.h"
#include "client/cli/interrupt.h"
#include "client/inference_client.h"
#include "trireme/v1/inference.grpc.pb.h"

namespace trireme::client {

struct BenchConnection {
  BenchTarget target;
  std::unique_ptr<v1::InferenceService::Stub> stub;  // calls are not made again when they fail
};

// Waits for 10 s at most, or until Ctrl-C.
absl::StatusOr<BenchConnection> ConnectForBench(const ClientOptions& options, InterruptWatcher& watcher);

}  // namespace trireme::client
