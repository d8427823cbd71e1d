#include "worker/cpu_ops.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "kernels/add.h"
#include "kernels/attention.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/embedding.h"
#include "kernels/gated_activation.h"
#include "kernels/gather_rows.h"
#include "kernels/product.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"
#include "worker/cpu_logits.h"
#include "worker/cpu_memory.h"

namespace trireme::worker {
namespace {

namespace cpu = kernels::cpu;

class HeldTensor : public DeviceTensor {
 public:
  explicit HeldTensor(HostTensor tensor) : tensor_(std::move(tensor)) {}

  std::int64_t size_bytes() const override {
    return tensor_.rows * tensor_.columns * kernels::ElementBytes(tensor_.type);
  }
  kernels::Matrix matrix() const { return tensor_.view(); }
  const float* floats() const {
    CHECK(tensor_.type == kernels::ElementType::kFloat32) << "norms and biases are held in float32";
    return tensor_.memory.As<float>();
  }

 private:
  const HostTensor tensor_;
};

class PackedTensor : public DeviceTensor {
 public:
  PackedTensor(const kernels::Matrix& weight, cpu::ThreadPool& pool) : weight_(weight, pool) {}

  std::int64_t size_bytes() const override { return weight_.size_bytes(); }
  const cpu::PackedWeight& weight() const { return weight_; }

 private:
  const cpu::PackedWeight weight_;
};

// A tensor that this device made by Hold, and one that it made by Pack.
const HeldTensor& Held(const DeviceTensor& tensor) { return static_cast<const HeldTensor&>(tensor); }
const cpu::PackedWeight& Packed(const DeviceTensor& tensor) {
  return static_cast<const PackedTensor&>(tensor).weight();
}

kernels::RowsByDim ShapeOf(const Activations& x) { return {x.rows, x.width}; }

class CpuOps : public Ops {
 public:
  explicit CpuOps(const CpuOpsOptions& options)
      : pool_({.num_threads = options.num_threads, .spin = options.spin}),
        multiplier_({.max_rows = options.max_rows, .max_k = options.max_in_width}, pool_),
        logits_(pool_) {
    for (const sharding::RopeTable& table : options.rope_tables) {
      rope_tables_.emplace_back(table.inv_freq, options.max_positions, table.scale);
    }
  }

  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(std::size_t bytes) override {
    return AllocateCpuMemory(bytes, pool_);
  }
  std::unique_ptr<DeviceTensor> Hold(HostTensor tensor) override {
    return std::make_unique<HeldTensor>(std::move(tensor));
  }
  std::unique_ptr<DeviceTensor> Pack(const HostTensor& tensor) override {
    return std::make_unique<PackedTensor>(tensor.view(), pool_);
  }

  void SetBatch(const Batch& batch) override { batch_ = &batch; }

  void Embed(const DeviceTensor& table, std::int64_t begin, const Activations& out) override {
    cpu::Embed(Held(table).matrix(), begin, batch_->token_ids, out.data, pool_);
  }

  void Linear(const DeviceTensor& weight, const DeviceTensor* bias, const Activations& x,
              const Activations& out) override {
    multiplier_.Multiply(
        Packed(weight),
        {.x = x.data, .bias = bias == nullptr ? nullptr : Held(*bias).floats(), .out = out.data, .rows = x.rows});
  }

  void RmsNorm(const DeviceTensor& weight, float epsilon, const Activations& x, const Activations& out) override {
    cpu::RmsNorm(x.data, Held(weight).floats(), ShapeOf(x), epsilon, out.data, pool_);
  }

  void Rope(int table, std::int64_t head_dim, const Activations& x) override {
    cpu::ApplyRope(
        {.data = x.data, .rows = x.rows, .num_heads = x.width / head_dim, .head_dim = head_dim, .row_stride = x.width},
        batch_->positions.data(), rope_tables_[table], pool_);
  }

  void Attention(int kv_group, const cpu::KvCache& cache, const AttentionShape& shape, const Activations& q,
                 const Activations& k, const Activations& v, const Activations& out) override {
    const auto& sequences = batch_->sequences[kv_group];
    cpu::WriteKv({.k = k.data, .v = v.data, .row_stride = k.width}, sequences, cache, pool_);
    cpu::PagedAttention({.q = q.data, .q_row_stride = q.width, .out = out.data}, sequences, cache,
                        {.num_heads = shape.num_heads, .scale = shape.scale}, pool_);
  }

  void GatedSilu(const Activations& gate, const Activations& up, const Activations& out) override {
    cpu::GatedSilu(gate.data, up.data, ShapeOf(out), out.data, pool_);
  }
  void Add(const Activations& a, const Activations& b, const Activations& out) override {
    cpu::Add(a.data, b.data, ShapeOf(out), out.data, pool_);
  }
  void AddBias(const DeviceTensor& bias, const Activations& x, const Activations& out) override {
    cpu::AddBias(x.data, Held(bias).floats(), ShapeOf(out), out.data, pool_);
  }
  void Scale(float factor, const Activations& x, const Activations& out) override {
    cpu::Scale(x.data, factor, ShapeOf(out), out.data, pool_);
  }
  void SelectRows(const Activations& x, const Activations& out) override {
    cpu::GatherRows(x.data, batch_->logit_row_indices, x.width, out.data, pool_);
  }

  void Copy(const Activations& x, const Activations& out) override {
    if (x.size() > 0) std::memcpy(out.data, x.data, x.size() * sizeof(float));
  }

  void TakeColumns(const Activations& x, const sharding::Intervals& part, const Activations& out) override {
    ForEachRun(x.rows, part, [&](std::int64_t row, std::int64_t full, std::int64_t local, std::int64_t size) {
      std::memcpy(out.data + row * out.width + local, x.data + row * x.width + full, size * sizeof(float));
    });
  }
  void PlaceColumns(const Activations& x, const sharding::Intervals& part, const Activations& out) override {
    ForEachRun(x.rows, part, [&](std::int64_t row, std::int64_t full, std::int64_t local, std::int64_t size) {
      std::memcpy(out.data + row * out.width + full, x.data + row * x.width + local, size * sizeof(float));
    });
  }

  void AnswerLogits(std::int32_t begin, std::span<const LogitQuestion> questions, std::span<LogitAnswer> answers,
                    std::span<TokenScore> candidates) override {
    logits_.Answer(begin, questions, answers, candidates);
  }
  void CountPreceding(std::int32_t begin, std::span<const RankQuestion> questions,
                      std::span<std::int64_t> counts) override {
    logits_.CountPreceding(begin, questions, counts);
  }
  void EditLogits(std::int32_t begin, RowOfLogits row, std::span<const cpu::LogitEdit> edits,
                  const cpu::LogitPenalties& penalties, std::span<float> out) override {
    CHECK_EQ(out.size(), row.size());
    std::copy(row.begin(), row.end(), out.begin());
    cpu::ApplyEdits(edits, penalties, begin, out);
  }

 private:
  // Calls copy(row, column in the full row, column in the part, size) for each contiguous run.
  template <typename CopyRun>
  static void ForEachRun(std::int64_t rows, const sharding::Intervals& part, const CopyRun& copy) {
    for (std::int64_t row = 0; row < rows; ++row) {
      std::int64_t local = 0;
      for (const sharding::Interval& interval : part) {
        if (!interval.empty()) copy(row, interval.begin, local, interval.size());
        local += interval.size();
      }
    }
  }

  cpu::ThreadPool pool_;
  cpu::Multiplier multiplier_;
  CpuLogits logits_;
  std::vector<cpu::RopeTable> rope_tables_;
  const Batch* batch_ = nullptr;
};

}  // namespace

std::unique_ptr<Ops> MakeCpuOps(const CpuOpsOptions& options) { return std::make_unique<CpuOps>(options); }

}  // namespace trireme::worker
