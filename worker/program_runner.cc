#include "worker/program_runner.h"

#include <algorithm>
#include <variant>

#include "absl/memory/memory.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace trireme::worker {
namespace {

using sharding::Intervals;
using sharding::LocalOp;

std::int64_t SumOfWidths(const std::vector<Intervals>& parts) {
  std::int64_t sum = 0;
  for (const Intervals& part : parts) sum += TotalSize(part);
  return sum;
}

// Elements of scratch memory for each row.
std::int64_t ScratchWidth(const sharding::CompiledProgram& program) {
  std::int64_t width = 0;
  for (const LocalOp& op : program.ops) {
    if (const auto* gather = std::get_if<sharding::AllGather>(&op.kind)) {
      width = std::max(width, SumOfWidths(gather->parts));
    }
    if (const auto* scatter = std::get_if<sharding::ReduceScatter>(&op.kind)) {
      width = std::max(width, SumOfWidths(scatter->parts));
    }
  }
  return width;
}

// The blocks of all ranks as one run of floats.
std::span<float> Joined(const std::vector<Activations>& blocks) {
  const Activations& last = blocks.back();
  return {blocks.front().data, last.data + last.size()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProgramRunner>> ProgramRunner::Create(const RunnerParts& parts, std::int64_t max_rows) {
  auto runner = absl::WrapUnique(new ProgramRunner(parts, max_rows));
  ASSIGN_OR_RETURN(runner->arena_, parts.ops.Allocate(parts.program.arena_width * max_rows * sizeof(float)));
  ASSIGN_OR_RETURN(runner->scratch_, parts.ops.Allocate(ScratchWidth(parts.program) * max_rows * sizeof(float)));
  runner->blocks_.resize(parts.program.rank.world);
  runner->sizes_.resize(parts.program.rank.world);
  return runner;
}

absl::Status ProgramRunner::Run(const Batch& batch) {
  CHECK_LE(batch.num_rows(), max_rows_);
  num_rows_ = batch.num_rows();
  num_logit_rows_ = batch.num_logit_rows();
  if (num_rows_ == 0) return absl::OkStatus();
  parts_.ops.SetBatch(batch);
  for (const LocalOp& op : parts_.program.ops) {
    if (Out(op).rows == 0) continue;  // no logits are wanted: no rank computes, none waits
    RETURN_IF_ERROR(std::visit([&](const auto& kind) { return Do(op, kind); }, op.kind));
  }
  return absl::OkStatus();
}

Activations ProgramRunner::View(sharding::ValueId id) const {
  const sharding::LocalValue& value = parts_.program.values[id];
  float* arena = reinterpret_cast<float*>(arena_->data());
  // Rows of this step and not the most there may be: small steps then stay in the CPU's cache.
  return {.data = arena + value.arena_offset * num_rows_,
          .rows = value.rows == sharding::Rows::kTokens ? num_rows_ : num_logit_rows_,
          .width = value.width};
}

absl::Status ProgramRunner::Do(const LocalOp& op, const sharding::LocalEmbed& embed) {
  parts_.ops.Embed(parts_.weights.table(embed.table), embed.vocabulary.begin, Out(op));
  return absl::OkStatus();
}

absl::Status ProgramRunner::Do(const LocalOp& op, const sharding::LocalLinear& linear) {
  const DeviceTensor* bias = linear.bias ? &parts_.weights.vector(*linear.bias) : nullptr;
  parts_.ops.Linear(parts_.weights.weight(linear.weight), bias, In(op), Out(op));
  return absl::OkStatus();
}

absl::Status ProgramRunner::Do(const LocalOp& op, const sharding::LocalRmsNorm& norm) {
  parts_.ops.RmsNorm(parts_.weights.vector(norm.weight), norm.epsilon, In(op), Out(op));
  return absl::OkStatus();
}

absl::Status ProgramRunner::Do(const LocalOp& op, const sharding::LocalRope& rope) {
  if (Out(op).data != In(op).data) parts_.ops.Copy(In(op), Out(op));
  parts_.ops.Rope(rope.table, rope.head_dim, Out(op));
  return absl::OkStatus();
}

absl::Status ProgramRunner::Do(const LocalOp& op, const sharding::LocalAttention& attention) {
  const kernels::cpu::KvCache& cache = parts_.kv_cache.layer(attention.kv_group, attention.layer_in_group);
  parts_.ops.Attention(attention.kv_group, cache, {.num_heads = attention.num_heads, .scale = attention.scale},
                       In(op, 0), In(op, 1), In(op, 2), Out(op));
  return absl::OkStatus();
}

absl::Status ProgramRunner::Do(const LocalOp& op, const sharding::GatedActivationOp& activation) {
  switch (activation.activation) {
    case sharding::Activation::kSilu:
      parts_.ops.GatedSilu(In(op, 0), In(op, 1), Out(op));
  }
  return absl::OkStatus();
}

absl::Status ProgramRunner::Do(const LocalOp& op, const sharding::AddOp&) {
  parts_.ops.Add(In(op, 0), In(op, 1), Out(op));
  return absl::OkStatus();
}

absl::Status ProgramRunner::Do(const LocalOp& op, const sharding::ScaleOp& scale) {
  parts_.ops.Scale(scale.factor, In(op), Out(op));
  return absl::OkStatus();
}

absl::Status ProgramRunner::Do(const LocalOp& op, const sharding::SelectRowsOp&) {
  parts_.ops.SelectRows(In(op), Out(op));
  return absl::OkStatus();
}

absl::Status ProgramRunner::Do(const LocalOp& op, const sharding::LocalAddBias& add_bias) {
  parts_.ops.AddBias(parts_.weights.vector(add_bias.bias), In(op), Out(op));
  return absl::OkStatus();
}

absl::Status ProgramRunner::Do(const LocalOp& op, const sharding::AllReduce&) {
  if (Out(op).data != In(op).data) parts_.ops.Copy(In(op), Out(op));
  return parts_.communicator.AllReduceSum(Out(op).span());
}

absl::Status ProgramRunner::Do(const LocalOp& op, const sharding::AllGather& all_gather) {
  const Activations in = In(op), out = Out(op);
  LayOutBlocks(in.rows, all_gather.parts);
  for (std::size_t& size : sizes_) size *= sizeof(float);
  RETURN_IF_ERROR(
      parts_.communicator.AllGather(std::as_bytes(in.span()), sizes_, std::as_writable_bytes(Joined(blocks_))));
  for (std::size_t r = 0; r < blocks_.size(); ++r) parts_.ops.PlaceColumns(blocks_[r], all_gather.parts[r], out);
  return absl::OkStatus();
}

absl::Status ProgramRunner::Do(const LocalOp& op, const sharding::ReduceScatter& reduce_scatter) {
  const Activations in = In(op), out = Out(op);
  LayOutBlocks(in.rows, reduce_scatter.parts);
  for (std::size_t r = 0; r < blocks_.size(); ++r) parts_.ops.TakeColumns(in, reduce_scatter.parts[r], blocks_[r]);
  return parts_.communicator.ReduceScatterSum(Joined(blocks_), sizes_, out.span());
}

absl::Status ProgramRunner::Do(const LocalOp& op, const sharding::LocalSlice& slice) {
  parts_.ops.TakeColumns(In(op), slice.part, Out(op));
  return absl::OkStatus();
}

void ProgramRunner::LayOutBlocks(std::int64_t rows, const std::vector<Intervals>& parts) {
  float* next = reinterpret_cast<float*>(scratch_->data());
  for (std::size_t r = 0; r < blocks_.size(); ++r) {
    blocks_[r] = {.data = next, .rows = rows, .width = TotalSize(parts[r])};
    sizes_[r] = static_cast<std::size_t>(blocks_[r].size());
    next += blocks_[r].size();
  }
}

}  // namespace trireme::worker
