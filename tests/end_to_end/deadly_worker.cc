// trireme-worker for tests: the same, but that it kills itself in each step that takes in a prompt with the token id of
// TRIREME_TEST_DEADLY_TOKEN.
#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/check.h"
#include "base/flags.h"
#include "base/status_macros.h"
#include "worker/control/cpu_parts.h"
#include "worker/control/local_worker.h"

namespace trireme::worker {
namespace {

class DeadlyExecutor final : public Executor {
 public:
  DeadlyExecutor(std::unique_ptr<Executor> executor, std::uint32_t deadly_token)
      : executor_(std::move(executor)), deadly_token_(deadly_token) {}

  ExecutorSizes sizes() const override { return executor_->sizes(); }
  absl::StatusOr<std::vector<float>> GatherLogits() override { return executor_->GatherLogits(); }

  absl::StatusOr<v1::StepResult> Run(const v1::Step& step) override {
    for (const v1::Admit& admit : step.admits()) {
      const auto prompt_end = admit.tokens().begin() + static_cast<std::ptrdiff_t>(admit.num_prompt_tokens());
      if (std::find(admit.tokens().begin(), prompt_end, deadly_token_) != prompt_end) raise(SIGKILL);
    }
    return executor_->Run(step);
  }

 private:
  const std::unique_ptr<Executor> executor_;
  const std::uint32_t deadly_token_;
};

WorkerParts DeadlyParts(int communicator_fd, std::uint32_t deadly_token) {
  WorkerParts parts = CpuParts(communicator_fd);
  parts.load_executor = [load = parts.load_executor, deadly_token](
                            const v1::Configure& configure, Communicator& communicator,
                            LoadProgress& progress) -> absl::StatusOr<std::unique_ptr<Executor>> {
    ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor, load(configure, communicator, progress));
    return std::make_unique<DeadlyExecutor>(std::move(executor), deadly_token);
  };
  return parts;
}

std::uint32_t DeadlyToken() {
  const char* text = std::getenv("TRIREME_TEST_DEADLY_TOKEN");
  std::uint32_t token = 0;
  CHECK(text != nullptr && absl::SimpleAtoi(text, &token)) << "TRIREME_TEST_DEADLY_TOKEN is not a token id";
  return token;
}

}  // namespace
}  // namespace trireme::worker

int main(int argc, char** argv) {
  trireme::worker::LocalWorkerOptions options;
  trireme::FlagParser flags("deadly_worker", "For tests.");
  trireme::worker::AddFlags(flags, &options);
  if (const std::optional<int> exit_status = trireme::ParseOrExit(flags, {argv + 1, argv + argc})) return *exit_status;
  return trireme::worker::RunLocalWorker(
      options, trireme::worker::DeadlyParts(options.communicator_fd, trireme::worker::DeadlyToken()));
}
