#include "worker/control/parent_guard.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "absl/strings/str_cat.h"

namespace trireme::worker {

absl::Status DieWithParent(pid_t parent_pid) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return absl::ErrnoToStatus(errno, "prctl(PR_SET_PDEATHSIG)");
  if (getppid() == parent_pid) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the parent is process ", getppid(), " and not the server, ",
                                                    parent_pid, ": it ended while this worker started"));
}

}  // namespace trireme::worker
