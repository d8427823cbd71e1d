#include "server/coordinator/step_channel.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "server/coordinator/step_messages.h"

namespace trireme::server {

void StepChannel::Open(GroupCapacity capacity, std::vector<std::shared_ptr<ControlStream>> streams) {
  MutexLock listen_lock(listen_mutex_);
  heard_generation_ = capacity.generation;
  last_result_ = 0;
  {
    MutexLock send_lock(send_mutex_);
    generation_ = capacity.generation;
    last_sent_ = 0;
    streams_ = std::move(streams);
  }
  listener_->OnGroupUp(capacity);
}

void StepChannel::CloseSending() {
  MutexLock lock(send_mutex_);
  streams_.clear();
}

void StepChannel::Close() {
  CloseSending();
  MutexLock lock(listen_mutex_);
  heard_generation_ = 0;
}

void StepChannel::CloseAndTell(const absl::Status& cause, bool for_good) {
  Close();
  MutexLock listen_lock(listen_mutex_);
  listener_->OnGroupDown(cause, for_good);
}

void StepChannel::Send(const StepCommand& command) {
  worker::v1::ConnectResponse message;
  *message.mutable_step() = ToMessage(command);
  const grpc::ByteBuffer bytes = Serialize(message);
  MutexLock lock(send_mutex_);
  if (streams_.empty() || command.generation != generation_) return;
  CHECK_EQ(command.number, last_sent_ + 1) << "steps are numbered 1, 2, 3, ... since the group came up";
  last_sent_ = command.number;
  for (std::size_t rank = 0; rank < streams_.size(); ++rank) {
    const absl::Status status = streams_[rank]->Send(bytes);
    if (!status.ok()) on_broken_({generation_, static_cast<int>(rank)}, std::string(status.message()));
  }
}

void StepChannel::OnResult(PeerId peer, const worker::v1::StepResult& result) {
  StepResult converted = FromMessage(result);
  MutexLock lock(listen_mutex_);
  if (peer.generation != heard_generation_) return;
  if (converted.number != last_result_ + 1 || converted.number > last_sent()) {
    on_broken_(peer, absl::StrCat("sent the result of step ", converted.number, " after that of step ", last_result_,
                                  "; the last step sent to it is ", last_sent()));
    heard_generation_ = 0;
    return;
  }
  last_result_ = converted.number;
  listener_->OnStepResult(std::move(converted));
}

std::uint64_t StepChannel::last_sent() const {
  MutexLock lock(send_mutex_);
  return last_sent_;
}

}  // namespace trireme::server
