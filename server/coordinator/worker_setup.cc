#include "server/coordinator/worker_setup.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/duration_message.h"
#include "base/logging_flags.h"

namespace trireme::server {
namespace {

namespace v1 = worker::v1;

v1::DType DTypeMessage(sharding::DType dtype) {
  if (dtype == sharding::DType::kBF16) return v1::D_TYPE_BFLOAT16;
  CHECK(dtype == sharding::DType::kF32) << "workers compute in float32 or bfloat16";
  return v1::D_TYPE_FLOAT32;
}

}  // namespace

ProcessSpec WorkerSpec(const WorkerGroupOptions& options, const std::string& control_address,
                       const std::string& spawn_token, int communicator_fd) {
  return {.binary = options.worker_binary,
          .arguments = {"--control", control_address,                                    //
                        "--parent-pid", absl::StrCat(getpid()),                          //
                        "--communicator-fd", absl::StrCat(WorkerProcess::kInheritedFd),  //
                        "--log-format", FormatFlagValue(options.log_format),             //
                        "--log-level", FormatFlagValue(options.log_level)},
          // oneDNN brings OpenMP with it, whose threads would spin beside our own pool.
          .environment = {{kSpawnTokenVariable, spawn_token}, {"OMP_NUM_THREADS", "1"}, {"OMP_WAIT_POLICY", "PASSIVE"}},
          .inherited_fd = communicator_fd};
}

v1::Configure ConfigureMessage(const WorkerGroupOptions& options, int rank, std::uint64_t generation) {
  v1::Configure message;
  message.set_rank(static_cast<std::uint32_t>(rank));
  message.set_world_size(static_cast<std::uint32_t>(options.tp_degree));
  message.set_generation(generation);
  message.set_model_path(options.model_path.string());
  message.set_dtype(DTypeMessage(options.dtype));
  message.mutable_plan_rules()->insert(options.plan_rules.begin(), options.plan_rules.end());
  message.set_max_model_len(options.max_model_len);
  message.set_max_num_seqs(options.limits.max_num_seqs);
  message.set_max_num_batched_tokens(options.limits.max_num_batched_tokens);
  message.set_max_logit_rows(options.limits.max_logit_rows);
  message.set_kv_block_tokens(options.limits.kv_block_tokens);
  message.set_kv_cache_bytes(options.kv_cache_bytes);
  const int threads = options.num_threads > 0 ? options.num_threads : DefaultThreadsPerRank(options.tp_degree);
  message.set_num_threads(static_cast<std::uint32_t>(threads));
  *message.mutable_heartbeat_interval() = ToMessage(options.timeouts.heartbeat_interval);
  *message.mutable_collective_timeout() = ToMessage(options.timeouts.collective_timeout);
  return message;
}

}  // namespace trireme::server
