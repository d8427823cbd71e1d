// `trireme bench`: only picks the benchmark.
#include "client/cli/command_set.h"
#include "client/cli/commands.h"

namespace trireme::client {
namespace {

constexpr Command kBenchmarks[] = {
    {"serve", "throughput and latencies under a load", RunBenchServe},
    {"interference", "how much a long prompt that joins slows running streams", RunBenchInterference},
};

}  // namespace

int RunBench(const Arguments& arguments, Terminal& terminal) {
  return RunOneOf({"trireme bench", "measures a running server", "benchmark", kBenchmarks}, arguments, terminal);
}

}  // namespace trireme::client
