// trireme-worker for tests: the same, but for the faults that its environment asks for.
//   TRIREME_TEST_DEADLY_TOKEN=ID     kills itself in each step that takes in a prompt with this token
//   TRIREME_TEST_FAILING_STEP=N      fails step N of the first group
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

struct Faults {
  std::optional<std::uint32_t> deadly_token;
  std::optional<std::uint64_t> failing_step;
};

class FaultyExecutor final : public Executor {
 public:
  FaultyExecutor(std::unique_ptr<Executor> executor, const Faults& faults)
      : executor_(std::move(executor)), faults_(faults) {}

  ExecutorSizes sizes() const override { return executor_->sizes(); }
  absl::StatusOr<std::vector<float>> GatherLogits() override { return executor_->GatherLogits(); }

  absl::StatusOr<v1::StepResult> Run(const v1::Step& step) override {
    if (step.number() == faults_.failing_step) return absl::InternalError("a test has this step fail");
    for (const v1::Admit& admit : step.admits()) {
      const auto prompt_end = admit.tokens().begin() + static_cast<std::ptrdiff_t>(admit.num_prompt_tokens());
      if (std::find(admit.tokens().begin(), prompt_end, faults_.deadly_token) != prompt_end) raise(SIGKILL);
    }
    return executor_->Run(step);
  }

 private:
  const std::unique_ptr<Executor> executor_;
  const Faults faults_;
};

WorkerParts PartsWith(int communicator_fd, const Faults& faults) {
  WorkerParts parts = CpuParts(communicator_fd);
  parts.load_executor = [load = parts.load_executor, faults](
                            const v1::Configure& configure, Communicator& communicator,
                            LoadProgress& progress) -> absl::StatusOr<std::unique_ptr<Executor>> {
    ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor, load(configure, communicator, progress));
    Faults now = faults;
    if (configure.generation() > 1) now.failing_step.reset();
    return std::make_unique<FaultyExecutor>(std::move(executor), now);
  };
  return parts;
}

template <class Number>
std::optional<Number> NumberFromEnvironment(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  Number number = 0;
  CHECK(absl::SimpleAtoi(text, &number)) << name << " is " << text;
  return number;
}

Faults FaultsFromEnvironment() {
  return {.deadly_token = NumberFromEnvironment<std::uint32_t>("TRIREME_TEST_DEADLY_TOKEN"),
          .failing_step = NumberFromEnvironment<std::uint64_t>("TRIREME_TEST_FAILING_STEP")};
}

}  // namespace
}  // namespace trireme::worker

int main(int argc, char** argv) {
  trireme::worker::LocalWorkerOptions options;
  trireme::FlagParser flags("faulty_worker", "For tests.");
  trireme::worker::AddFlags(flags, &options);
  if (const std::optional<int> exit_status = trireme::ParseOrExit(flags, {argv + 1, argv + argc})) return *exit_status;
  return trireme::worker::RunLocalWorker(
      options, trireme::worker::PartsWith(options.communicator_fd, trireme::worker::FaultsFromEnvironment()));
}
