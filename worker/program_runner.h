// Runs a compiled program over a ragged batch: op after op, as the list says.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sharding/program/compiled_program.h"
#include "worker/batch.h"
#include "worker/communicator.h"
#include "worker/kv_cache.h"
#include "worker/ops.h"
#include "worker/weights.h"

namespace trireme::worker {

// What a runner works with; all of it outlives the runner.
struct RunnerParts {
  const sharding::CompiledProgram& program;
  const Weights& weights;
  const KvCache& kv_cache;
  Ops& ops;
  Communicator& communicator;
};

// One thread at a time.
class ProgramRunner {
 public:
  // Allocates the activations of at most `max_rows` rows: nothing is allocated after that.
  static absl::StatusOr<std::unique_ptr<ProgramRunner>> Create(const RunnerParts& parts, std::int64_t max_rows);

  // Computes logits() of the batch's logit rows; keys and values of its rows go to the cache. A batch
  // without rows is nothing to do. Errors are those of the communicator.
  absl::Status Run(const Batch& batch);

  // [logit rows, ids held by this rank], until the next Run.
  Activations logits() const { return View(parts_.program.logits); }

 private:
  ProgramRunner(const RunnerParts& parts, std::int64_t max_rows) : parts_(parts), max_rows_(max_rows) {}

  Activations View(sharding::ValueId id) const;
  Activations In(const sharding::LocalOp& op, int i = 0) const { return View(op.inputs[i]); }
  Activations Out(const sharding::LocalOp& op) const { return View(op.output); }

  // One for each kind of op.
  absl::Status Do(const sharding::LocalOp& op, const sharding::LocalEmbed& embed);
  absl::Status Do(const sharding::LocalOp& op, const sharding::LocalLinear& linear);
  absl::Status Do(const sharding::LocalOp& op, const sharding::LocalRmsNorm& norm);
  absl::Status Do(const sharding::LocalOp& op, const sharding::LocalRope& rope);
  absl::Status Do(const sharding::LocalOp& op, const sharding::LocalAttention& attention);
  absl::Status Do(const sharding::LocalOp& op, const sharding::GatedActivationOp& activation);
  absl::Status Do(const sharding::LocalOp& op, const sharding::AddOp& add);
  absl::Status Do(const sharding::LocalOp& op, const sharding::ScaleOp& scale);
  absl::Status Do(const sharding::LocalOp& op, const sharding::SelectRowsOp& select);
  absl::Status Do(const sharding::LocalOp& op, const sharding::LocalAddBias& add_bias);
  absl::Status Do(const sharding::LocalOp& op, const sharding::AllReduce& all_reduce);
  absl::Status Do(const sharding::LocalOp& op, const sharding::AllGather& all_gather);
  absl::Status Do(const sharding::LocalOp& op, const sharding::ReduceScatter& reduce_scatter);
  absl::Status Do(const sharding::LocalOp& op, const sharding::LocalSlice& slice);

  // Views of the scratch memory: for each rank a block [rows, width of its part], in rank order. Sets sizes_
  // to the blocks' numbers of elements.
  void LayOutBlocks(std::int64_t rows, const std::vector<sharding::Intervals>& parts);

  const RunnerParts parts_;
  const std::int64_t max_rows_;
  std::unique_ptr<DeviceMemory> arena_;
  std::unique_ptr<DeviceMemory> scratch_;  // of gathers and scatters
  std::int64_t num_rows_ = 0;              // of the batch
  std::int64_t num_logit_rows_ = 0;
  std::vector<Activations> blocks_;  // per rank, in scratch_
  std::vector<std::size_t> sizes_;   // per rank
};

}  // namespace trireme::worker
