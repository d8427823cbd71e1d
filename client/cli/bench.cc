// `trireme bench`: only picks the benchmark.
#include <string_view>

#include "base/version.h"
#include "client/cli/commands.h"

namespace trireme::client {
namespace {

constexpr std::string_view kUsage =
    "trireme bench: measures a running server\n\nBenchmarks:\n"
    "  trireme bench serve         throughput and latencies under a load\n"
    "  trireme bench interference  how much a long prompt that joins slows running streams\n"
    "\nFlags:\n  --help     show this text; after a benchmark, its flags\n  --version  show the version\n";

}  // namespace

int RunBench(const Arguments& arguments, Terminal& terminal) {
  if (arguments.empty()) {
    terminal.err << kUsage;
    return kExitUsage;
  }
  const std::string& name = arguments.front();
  const Arguments rest(arguments.begin() + 1, arguments.end());
  if (name == "serve") return RunBenchServe(rest, terminal);
  if (name == "interference") return RunBenchInterference(rest, terminal);
  if (name == "--help" || name == "-h") {
    terminal.out << kUsage;
    return kExitOk;
  }
  if (name == "--version") {
    terminal.out << "trireme " << BuildId() << "\n";
    return kExitOk;
  }
  const std::string kind = name.starts_with("-") ? "flag" : "benchmark";
  terminal.err << "trireme bench: unknown " << kind << " \"" << name << "\"\nSee trireme bench --help.\n";
  return kExitUsage;
}

}  // namespace trireme::client
