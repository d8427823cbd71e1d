#include "tests/server/coordinator/children.h"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>

#include "absl/time/clock.h"
#include "base/check.h"

namespace trireme::server {

void AdoptOrphans() { CHECK_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); }

std::vector<pid_t> Children() {
  std::vector<pid_t> children;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(thread.path() / "children");
    for (pid_t pid = 0; file >> pid;) children.push_back(pid);
  }
  return children;
}

std::vector<pid_t> ReapAll(absl::Duration patience) {
  const absl::Time deadline = absl::Now() + patience;
  while (true) {
    for (const pid_t pid : Children()) waitpid(pid, nullptr, WNOHANG);
    std::vector<pid_t> left = Children();
    if (left.empty() || absl::Now() >= deadline) return left;
    absl::SleepFor(absl::Milliseconds(5));
  }
}

}  // namespace trireme::server
