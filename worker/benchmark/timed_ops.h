// Ops that say where the time of steps goes.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "worker/ops.h"

namespace trireme::worker {

// The time that this thread has run, which others on the machine stretch least (right where a rank has one
// thread), or the time on the wall.
using StepClock = absl::Duration (*)();
absl::Duration ThreadTime();
absl::Duration WallTime();

using TimeByPart = std::map<std::string, absl::Duration>;

// Passes all on to `ops` and adds the time of each function to `times`, which outlives it.
std::unique_ptr<Ops> MakeTimedOps(std::unique_ptr<Ops> ops, StepClock clock, TimeByPart& times);

}  // namespace trireme::worker
