// A worker does not outlive the server that started it, however that ends.
#pragma once
#include <sys/types.h>

#include "absl/status/status.h"

namespace trireme::worker {

// From now on this process is killed (SIGKILL, also if it is stopped) when the thread that started it ends.
// FAILED_PRECONDITION if the parent is not `parent_pid`: it ended before this call.
//
// This is called after exec and not between fork and exec, so that the server may start workers by posix_spawn.
absl::Status DieWithParent(pid_t parent_pid);

}  // namespace trireme::worker
