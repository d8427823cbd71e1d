// What a device does for a rank: one function per op over kernels/, and the memory it works in. Chosen once
// at start; CPU today. One level of virtual functions: what lies behind them (packing, threads, streams,
// graphs) is the device's.
//
// Activations are float32 and contiguous. Functions return when the result may be used by the next one;
// nothing is allocated but by Allocate, Hold and Pack. One thread at a time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/cpu/aligned_buffer.h"
#include "kernels/kv_cache.h"
#include "kernels/tensor.h"
#include "sharding/placement/interval.h"
#include "sharding/program/program.h"
#include "worker/batch.h"
#include "worker/logit_answers.h"

namespace trireme::worker {

// [rows, width], row-major, contiguous, in the device's memory.
struct Activations {
  float* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t width = 0;

  std::int64_t size() const { return rows * width; }
  std::span<float> span() const { return {data, static_cast<std::size_t>(size())}; }
};

// A tensor in the host's memory, as read from the checkpoint.
struct HostTensor {
  kernels::cpu::AlignedBuffer memory;
  kernels::ElementType type = kernels::ElementType::kFloat32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  kernels::Matrix view() const { return {memory.As<void>(), type, rows, columns}; }
};

// A tensor as the device that made it wants it; only that device knows what is in it.
class DeviceTensor {
 public:
  virtual ~DeviceTensor() = default;
  virtual std::int64_t size_bytes() const = 0;
};

// Zeros at first, aligned to 64.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::byte* data() const = 0;
};

struct AttentionShape {
  std::int64_t num_heads = 0;
  float scale = 1;
};

class Ops {
 public:
  virtual ~Ops() = default;

  // ResourceExhausted if there is no such memory.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(std::size_t bytes) = 0;
  // A table for Embed, or a row for RmsNorm and AddBias.
  virtual std::unique_ptr<DeviceTensor> Hold(HostTensor tensor) = 0;
  // A weight [out, in] for Linear. Keeps nothing of `tensor`.
  virtual std::unique_ptr<DeviceTensor> Pack(const HostTensor& tensor) = 0;

  // The batch that Embed, Rope, Attention and SelectRows speak of, until the next call. It stays as it is meanwhile.
  virtual void SetBatch(const Batch& batch) = 0;

  // out[r] = the row of the batch's token id r, where `table` has the ids from `begin` on; else zeros.
  virtual void Embed(const DeviceTensor& table, std::int64_t begin, const Activations& out) = 0;
  // out = x · weightᵀ (+ bias).
  virtual void Linear(const DeviceTensor& weight, const DeviceTensor* bias, const Activations& x,
                      const Activations& out) = 0;
  // out may be x.
  virtual void RmsNorm(const DeviceTensor& weight, float epsilon, const Activations& x, const Activations& out) = 0;
  // Rotates heads of `head_dim` in place, with `rope_tables[table]` of those the device was made with.
  virtual void Rope(int table, std::int64_t head_dim, const Activations& x) = 0;
  // Writes k and v into `cache`, whose block tables are those of `kv_group`; then out = attention of q.
  virtual void Attention(int kv_group, const kernels::cpu::KvCache& cache, const AttentionShape& shape,
                         const Activations& q, const Activations& k, const Activations& v, const Activations& out) = 0;
  // out = silu(gate) · up; out may be either.
  virtual void GatedSilu(const Activations& gate, const Activations& up, const Activations& out) = 0;
  // out = a + b; out may be either.
  virtual void Add(const Activations& a, const Activations& b, const Activations& out) = 0;
  // out may be x, here and in Scale.
  virtual void AddBias(const DeviceTensor& bias, const Activations& x, const Activations& out) = 0;
  virtual void Scale(float factor, const Activations& x, const Activations& out) = 0;
  // out[i] = x[row i of those whose logits are wanted].
  virtual void SelectRows(const Activations& x, const Activations& out) = 0;
  // out = x, of the same shape.
  virtual void Copy(const Activations& x, const Activations& out) = 0;
  // out = the columns of x that lie in `part`, side by side.
  virtual void TakeColumns(const Activations& x, const sharding::Intervals& part, const Activations& out) = 0;
  // The reverse: the columns of out that lie in `part` = x.
  virtual void PlaceColumns(const Activations& x, const sharding::Intervals& part, const Activations& out) = 0;

  // Rows of logits hold the ids from `begin` on. One answer a question; `candidates` has room for the num_candidates of
  // each, one after another, and is filled up with neutral ones.
  virtual void AnswerLogits(std::int32_t begin, std::span<const LogitQuestion> questions,
                            std::span<LogitAnswer> answers, std::span<TokenScore> candidates) = 0;
  // counts[i] = how many logits precede the token of questions[i].
  virtual void CountPreceding(std::int32_t begin, std::span<const RankQuestion> questions,
                              std::span<std::int64_t> counts) = 0;
  // out = row, edited: see kernels/sampling.h. out has the row's size, and is not the row.
  virtual void EditLogits(std::int32_t begin, RowOfLogits row, std::span<const kernels::cpu::LogitEdit> edits,
                          const kernels::cpu::LogitPenalties& penalties, std::span<float> out) = 0;
};

}  // namespace trireme::worker
