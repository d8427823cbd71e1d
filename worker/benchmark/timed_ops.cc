#include "worker/benchmark/timed_ops.h"

#include <time.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace trireme::worker {
namespace {

absl::Duration ReadClock(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return absl::DurationFromTimespec(time);
}

class TimedOps : public Ops {
 public:
  TimedOps(std::unique_ptr<Ops> ops, StepClock clock, TimeByPart& times)
      : ops_(std::move(ops)), clock_(clock), times_(times) {}

  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(std::size_t bytes) override { return ops_->Allocate(bytes); }
  std::unique_ptr<DeviceTensor> Hold(HostTensor tensor) override { return ops_->Hold(std::move(tensor)); }
  std::unique_ptr<DeviceTensor> Pack(const HostTensor& tensor) override { return ops_->Pack(tensor); }
  void SetBatch(const Batch& batch) override { ops_->SetBatch(batch); }

  void Embed(const DeviceTensor& table, std::int64_t begin, const Activations& out) override {
    Time("embed", [&] { ops_->Embed(table, begin, out); });
  }
  void Linear(const DeviceTensor& weight, const DeviceTensor* bias, const Activations& x,
              const Activations& out) override {
    Time(absl::StrCat("linear ", x.width, "x", out.width), [&] { ops_->Linear(weight, bias, x, out); });
  }
  void RmsNorm(const DeviceTensor& weight, float epsilon, const Activations& x, const Activations& out) override {
    Time("rms norm", [&] { ops_->RmsNorm(weight, epsilon, x, out); });
  }
  void Rope(int table, std::int64_t head_dim, const Activations& x) override {
    Time("rope", [&] { ops_->Rope(table, head_dim, x); });
  }
  void Attention(int kv_group, const kernels::cpu::KvCache& cache, const AttentionShape& shape, const Activations& q,
                 const Activations& k, const Activations& v, const Activations& out) override {
    Time("attention", [&] { ops_->Attention(kv_group, cache, shape, q, k, v, out); });
  }
  void GatedSilu(const Activations& gate, const Activations& up, const Activations& out) override {
    Time("gated silu", [&] { ops_->GatedSilu(gate, up, out); });
  }
  void Add(const Activations& a, const Activations& b, const Activations& out) override {
    Time("add", [&] { ops_->Add(a, b, out); });
  }
  void AddBias(const DeviceTensor& bias, const Activations& x, const Activations& out) override {
    Time("add bias", [&] { ops_->AddBias(bias, x, out); });
  }
  void Scale(float factor, const Activations& x, const Activations& out) override {
    Time("scale", [&] { ops_->Scale(factor, x, out); });
  }
  void SelectRows(const Activations& x, const Activations& out) override {
    Time("select rows", [&] { ops_->SelectRows(x, out); });
  }
  void Copy(const Activations& x, const Activations& out) override {
    Time("copy", [&] { ops_->Copy(x, out); });
  }
  void TakeColumns(const Activations& x, const sharding::Intervals& part, const Activations& out) override {
    Time("columns", [&] { ops_->TakeColumns(x, part, out); });
  }
  void PlaceColumns(const Activations& x, const sharding::Intervals& part, const Activations& out) override {
    Time("columns", [&] { ops_->PlaceColumns(x, part, out); });
  }
  void AnswerLogits(std::int32_t begin, std::span<const LogitQuestion> questions, std::span<LogitAnswer> answers,
                    std::span<TokenScore> candidates) override {
    Time("answer logits", [&] { ops_->AnswerLogits(begin, questions, answers, candidates); });
  }
  void CountPreceding(std::int32_t begin, std::span<const RankQuestion> questions,
                      std::span<std::int64_t> counts) override {
    Time("count preceding", [&] { ops_->CountPreceding(begin, questions, counts); });
  }
  void EditLogits(std::int32_t begin, RowOfLogits row, std::span<const kernels::cpu::LogitEdit> edits,
                  const kernels::cpu::LogitPenalties& penalties, std::span<float> out) override {
    Time("edit logits", [&] { ops_->EditLogits(begin, row, edits, penalties, out); });
  }

 private:
  template <typename Work>
  void Time(const std::string& part, const Work& work) {
    const absl::Duration begun = clock_();
    work();
    times_[part] += clock_() - begun;
  }

  const std::unique_ptr<Ops> ops_;
  const StepClock clock_;
  TimeByPart& times_;
};

}  // namespace

absl::Duration ThreadTime() { return ReadClock(CLOCK_THREAD_CPUTIME_ID); }
absl::Duration WallTime() { return ReadClock(CLOCK_MONOTONIC); }

std::unique_ptr<Ops> MakeTimedOps(std::unique_ptr<Ops> ops, StepClock clock, TimeByPart& times) {
  return std::make_unique<TimedOps>(std::move(ops), clock, times);
}

}  // namespace trireme::worker
