#include "worker/control/host_communicator.h"

#include "absl/time/time.h"
#include "base/duration_message.h"
#include "worker/shared_memory_communicator.h"
#include "worker/single_rank_communicator.h"

namespace trireme::worker {

absl::StatusOr<std::unique_ptr<Communicator>> MakeHostCommunicator(const v1::Configure& configure, int fd) {
  if (configure.world_size() == 1) return MakeSingleRankCommunicator();
  const sharding::Rank rank = {.index = static_cast<int>(configure.rank()),
                               .world = static_cast<int>(configure.world_size())};
  SharedMemoryOptions options;
  options.timeout = DurationFrom(configure.collective_timeout());
  options.spin = SpinThatSuits(rank.world, static_cast<int>(configure.num_threads()));
  return SharedMemoryCommunicator::Create(fd, rank, options);
}

}  // namespace trireme::worker
