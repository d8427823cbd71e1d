#include "worker/control/cpu_parts.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/control/host_communicator.h"

namespace trireme::worker {
namespace {

absl::StatusOr<sharding::DType> DTypeFrom(v1::DType dtype) {
  switch (dtype) {
    case v1::D_TYPE_FLOAT32:
      return sharding::DType::kF32;
    case v1::D_TYPE_BFLOAT16:
      return sharding::DType::kBF16;
    default:
      return absl::InvalidArgumentError(absl::StrCat("Configure.dtype ", static_cast<int>(dtype)));
  }
}

}  // namespace

WorkerParts CpuParts(int communicator_fd) {
  return {.make_communicator =
              [communicator_fd](const v1::Configure& configure) {
                return MakeHostCommunicator(configure, communicator_fd);
              },
          .load_executor = [](const v1::Configure& configure, Communicator& communicator,
                              LoadProgress& progress) -> absl::StatusOr<std::unique_ptr<Executor>> {
            ASSIGN_OR_RETURN(const ExecutorOptions options, ExecutorOptionsFrom(configure));
            return Executor::Load(options, communicator, progress);
          }};
}

absl::StatusOr<ExecutorOptions> ExecutorOptionsFrom(const v1::Configure& configure) {
  ASSIGN_OR_RETURN(const sharding::DType dtype, DTypeFrom(configure.dtype()));
  return ExecutorOptions{.model_path = configure.model_path(),
                         .dtype = dtype,
                         .plan_rules = {configure.plan_rules().begin(), configure.plan_rules().end()},
                         .max_model_len = configure.max_model_len(),
                         .max_num_seqs = configure.max_num_seqs(),
                         .max_num_batched_tokens = configure.max_num_batched_tokens(),
                         .max_logit_rows = configure.max_logit_rows(),
                         .kv_block_tokens = configure.kv_block_tokens(),
                         .kv_cache_bytes = configure.kv_cache_bytes(),
                         .num_threads = static_cast<int>(configure.num_threads())};
}

}  // namespace trireme::worker
