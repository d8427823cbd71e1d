#include "server/grpc_log.h"

#include <grpc/support/log.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/logging.h"

namespace trireme::server {
namespace {

void LogOne(gpr_log_func_args* message) {
  static OncePerSecond* const limit = new OncePerSecond;
  if (const auto num_held_back = limit->Pass(absl::Now())) {
    LogWarning("gRPC", {{"error", message->message},
                        {"where", absl::StrCat(message->file, ":", message->line)},
                        {"held_back", *num_held_back}});
  }
}

}  // namespace

std::optional<std::uint64_t> OncePerSecond::Pass(absl::Time now) {
  MutexLock lock(mutex_);
  if (now < next_) {
    ++num_held_back_;
    return std::nullopt;
  }
  next_ = now + absl::Seconds(1);
  return std::exchange(num_held_back_, 0);
}

void TakeOverGrpcLog() { gpr_set_log_function(LogOne); }

}  // namespace trireme::server
