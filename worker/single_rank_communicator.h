// The group of one: nothing to wait for.
#pragma once
#include <memory>

#include "worker/communicator.h"

namespace trireme::worker {

std::unique_ptr<Communicator> MakeSingleRankCommunicator();

}  // namespace trireme::worker
