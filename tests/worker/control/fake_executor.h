// An executor that computes nothing: each item of step n that lies in slot s samples the token 1000 * s + n. What it
// does besides is the test's.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "worker/executor.h"

namespace trireme::worker {

inline constexpr std::uint32_t kFakeKvBlocks = 64;

inline std::uint32_t FakeToken(std::uint32_t slot, std::uint64_t step) {
  return 1000 * slot + static_cast<std::uint32_t>(step);
}

class FakeExecutor : public Executor {
 public:
  using OnStep = std::function<absl::Status(const v1::Step&)>;

  explicit FakeExecutor(OnStep on_step) : on_step_(std::move(on_step)) {}

  ExecutorSizes sizes() const override {
    return {.weight_bytes = 4096, .bytes_read = 2048, .kv_cache_bytes = 1024, .num_kv_blocks = {kFakeKvBlocks}};
  }

  absl::StatusOr<v1::StepResult> Run(const v1::Step& step) override {
    if (absl::Status status = on_step_(step); !status.ok()) return status;
    v1::StepResult result;
    result.set_step(step.number());
    for (const v1::StepItem& item : step.items()) {
      v1::SlotTokens& slot = *result.add_slots();
      slot.set_slot(item.slot());
      slot.add_tokens()->set_token_id(FakeToken(item.slot(), step.number()));
    }
    return result;
  }

  absl::StatusOr<std::vector<float>> GatherLogits() override { return absl::UnimplementedError("no logits"); }

 private:
  const OnStep on_step_;
};

}  // namespace trireme::worker
