// Which processes are below this one: tests assert by pid that none is left.
#pragma once
#include <sys/types.h>

#include <vector>

#include "absl/time/time.h"

namespace trireme::server {

// From now on orphaned grandchildren become children of this process.
void AdoptOrphans();

// Zombies included.
std::vector<pid_t> Children();

// Reaps children that have ended until there is none, for `patience` at most. Returns those that are left. Not to be
// used while something else reaps.
std::vector<pid_t> ReapAll(absl::Duration patience);

}  // namespace trireme::server
