// A server for tests that is nothing but a worker group. `group_server WORKER RANKS`: writes a line with the pids of
// its workers to descriptor 3 once they run, and lives until it is killed.
#include <unistd.h>

#include <algorithm>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "server/coordinator/worker_group.h"
#include "tests/server/coordinator/recording_listener.h"

int main(int argc, char** argv) {
  using namespace trireme::server;  // NOLINT
  CHECK_EQ(argc, 3);
  WorkerGroupOptions options;
  options.worker_binary = argv[1];
  CHECK(absl::SimpleAtoi(argv[2], &options.tp_degree));
  options.model_path = "/no/model";
  RecordingListener listener;
  WorkerGroup group(options);
  CHECK_OK(group.Start(&listener));
  const auto all_run = [](const GroupStatus& status) {
    return !status.ranks.empty() && std::all_of(status.ranks.begin(), status.ranks.end(), [](const RankStatus& rank) {
      return rank.state == RankState::kLoading || rank.state == RankState::kReady;
    });
  };
  while (!all_run(group.status())) absl::SleepFor(absl::Milliseconds(5));
  std::string pids;
  for (const RankStatus& rank : group.status().ranks) absl::StrAppend(&pids, rank.pid, " ");
  pids.push_back('\n');
  CHECK_EQ(write(3, pids.data(), pids.size()), static_cast<ssize_t>(pids.size()));
  absl::SleepFor(absl::Minutes(10));
}
