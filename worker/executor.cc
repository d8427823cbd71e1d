#include "worker/executor.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/duration_message.h"
#include "base/status_macros.h"
#include "sharding/model.h"
#include "worker/cpu_ops.h"
#include "worker/kv_cache.h"
#include "worker/program_runner.h"
#include "worker/rendezvous.h"
#include "worker/sampler.h"
#include "worker/slots.h"
#include "worker/warm_up.h"
#include "worker/weights.h"

namespace trireme::worker {
namespace {

using sharding::CompiledProgram;
using sharding::DType;

// How long the ranks that have read their weights wait for the last one. The coordinator sees sooner, by the
// heartbeats, who makes no progress; this only keeps the promise that every wait ends.
constexpr absl::Duration kLoadPatience = absl::Hours(24);

absl::Status CheckAtLeastOne(std::string_view name, std::uint64_t value) {
  if (value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(std::string(name), " is 0; it must be at least 1"));
}

absl::Status CheckOptions(const ExecutorOptions& options) {
  RETURN_IF_ERROR(CheckAtLeastOne("max_model_len", options.max_model_len));
  RETURN_IF_ERROR(CheckAtLeastOne("max_num_seqs", options.max_num_seqs));
  RETURN_IF_ERROR(CheckAtLeastOne("max_num_batched_tokens", options.max_num_batched_tokens));
  RETURN_IF_ERROR(CheckAtLeastOne("num_threads", options.num_threads));
  if (options.max_logit_rows < options.max_num_seqs) {
    return absl::InvalidArgumentError(absl::StrCat("max_logit_rows is ", options.max_logit_rows,
                                                   "; it must be at least max_num_seqs, ", options.max_num_seqs));
  }
  if (options.kv_block_tokens < 1 || options.kv_block_tokens > kernels::cpu::kMaxKvBlockSize) {
    return absl::InvalidArgumentError(absl::StrCat("kv_block_tokens is ", options.kv_block_tokens,
                                                   "; it must be in [1, ", kernels::cpu::kMaxKvBlockSize, "]"));
  }
  if (options.dtype != DType::kF32 && options.dtype != DType::kBF16) {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype is ", std::string(TraitsOf(options.dtype).name), "; a CPU computes in F32 and BF16"));
  }
  return absl::OkStatus();
}

std::int64_t MaxInWidth(const CompiledProgram& program) {
  std::int64_t width = 0;
  for (const sharding::LocalOp& op : program.ops) {
    const auto* linear = std::get_if<sharding::LocalLinear>(&op.kind);
    if (linear != nullptr) width = std::max(width, program.parameters[linear->weight].local_shape()[1]);
  }
  return width;
}

class ModelExecutor : public Executor {
 public:
  ModelExecutor(const ExecutorOptions& options, Communicator& communicator)
      : options_(options), communicator_(communicator) {}

  absl::Status Load(LoadProgress& progress);

  ExecutorSizes sizes() const override { return sizes_; }
  absl::StatusOr<v1::StepResult> Run(const v1::Step& step) override;
  absl::StatusOr<std::vector<float>> GatherLogits() override;

 private:
  absl::StatusOr<sharding::Model> OpenAndCompile();
  void MakeOps();
  absl::Status LoadWeights(const sharding::Checkpoint& checkpoint, LoadProgress& progress);
  absl::Status AllocateKvCache();
  absl::Status MakeStepParts();
  absl::Status SampleInto(v1::StepResult& result);

  std::vector<std::uint32_t> NumKvBlocks() const {
    return std::vector<std::uint32_t>(program_.kv_groups.size(), kv_cache_->num_blocks());
  }

  const ExecutorOptions options_;
  Communicator& communicator_;
  CompiledProgram program_;
  std::unique_ptr<Ops> ops_;
  Weights weights_;
  std::unique_ptr<KvCache> kv_cache_;
  std::unique_ptr<ProgramRunner> runner_;
  std::unique_ptr<SlotTable> slots_;
  std::unique_ptr<Sampler> sampler_;
  ExecutorSizes sizes_;
};

absl::Status ModelExecutor::Load(LoadProgress& progress) {
  RETURN_IF_ERROR(CheckOptions(options_));
  ASSIGN_OR_RETURN(const sharding::Model model, OpenAndCompile());
  MakeOps();
  RETURN_IF_ERROR(LoadWeights(*model.checkpoint, progress));
  RETURN_IF_ERROR(AllocateKvCache());
  RETURN_IF_ERROR(communicator_.Barrier(kLoadPatience));
  RETURN_IF_ERROR(MakeStepParts());
  return WarmUp({.max_rows = std::min(options_.max_num_batched_tokens, options_.max_model_len),
                 .num_kv_blocks = kv_cache_->num_blocks(),
                 .kv_block_tokens = options_.kv_block_tokens,
                 .num_kv_groups = program_.kv_groups.size()},
                *runner_, *sampler_);
}

absl::StatusOr<sharding::Model> ModelExecutor::OpenAndCompile() {
  ASSIGN_OR_RETURN(sharding::Model model,
                   sharding::OpenModel(options_.model_path, sharding::StrategyRegistry::BuiltIn(),
                                       sharding::Plan{options_.plan_rules}));
  RETURN_IF_ERROR(sharding::CheckTpDegree(model, communicator_.rank().world));
  ASSIGN_OR_RETURN(program_, sharding::Compile(model.program, model.plan, communicator_.rank()));
  return model;
}

void ModelExecutor::MakeOps() {
  const absl::Duration spin = SpinThatSuits(communicator_.rank().world, options_.num_threads);
  ops_ = MakeCpuOps({.num_threads = options_.num_threads,
                     .spin = std::min(spin, absl::Microseconds(50)),
                     .rope_tables = program_.rope_tables,
                     .max_positions = options_.max_model_len,
                     .max_rows = options_.max_num_batched_tokens,
                     .max_in_width = MaxInWidth(program_)});
}

absl::Status ModelExecutor::LoadWeights(const sharding::Checkpoint& checkpoint, LoadProgress& progress) {
  ASSIGN_OR_RETURN(weights_, Weights::Load(program_, checkpoint, options_.dtype, *ops_, progress));
  sizes_.weight_bytes = weights_.size_bytes();
  sizes_.bytes_read = static_cast<std::uint64_t>(checkpoint.tensor_bytes_read());
  return absl::OkStatus();
}

absl::Status ModelExecutor::AllocateKvCache() {
  ASSIGN_OR_RETURN(kv_cache_, KvCache::Allocate({.groups = program_.kv_groups,
                                                 .max_bytes = options_.kv_cache_bytes,
                                                 .block_tokens = options_.kv_block_tokens,
                                                 .type = ElementTypeOf(options_.dtype)},
                                                *ops_));
  sizes_.kv_cache_bytes = kv_cache_->size_bytes();
  sizes_.num_kv_blocks = NumKvBlocks();
  return absl::OkStatus();
}

absl::Status ModelExecutor::MakeStepParts() {
  ASSIGN_OR_RETURN(runner_, ProgramRunner::Create({.program = program_,
                                                   .weights = weights_,
                                                   .kv_cache = *kv_cache_,
                                                   .ops = *ops_,
                                                   .communicator = communicator_},
                                                  options_.max_num_batched_tokens));
  slots_ = std::make_unique<SlotTable>(SlotLimits{.max_num_seqs = options_.max_num_seqs,
                                                  .max_model_len = options_.max_model_len,
                                                  .max_num_batched_tokens = options_.max_num_batched_tokens,
                                                  .max_logit_rows = options_.max_logit_rows,
                                                  .kv_block_tokens = options_.kv_block_tokens,
                                                  .num_kv_blocks = NumKvBlocks(),
                                                  .vocabulary = program_.vocabulary});
  ASSIGN_OR_RETURN(sampler_, Sampler::Create({.vocabulary = program_.vocabulary,
                                              .local_vocabulary = program_.logits_vocabulary,
                                              .max_rows = options_.max_logit_rows,
                                              .max_sampled = options_.max_num_seqs},
                                             *ops_, communicator_));
  return absl::OkStatus();
}

absl::StatusOr<v1::StepResult> ModelExecutor::Run(const v1::Step& step) {
  const auto begun = std::chrono::steady_clock::now();
  RETURN_IF_ERROR(slots_->Apply(step));
  RETURN_IF_ERROR(runner_->Run(slots_->batch()));
  v1::StepResult result;
  result.set_step(step.number());
  if (slots_->batch().num_logit_rows() > 0) RETURN_IF_ERROR(SampleInto(result));
  *result.mutable_duration() = ToMessage(absl::FromChrono(std::chrono::steady_clock::now() - begun));
  return result;
}

void Write(const RowToken& token, const LogitRow& row, v1::SampledToken& out) {
  out.set_token_id(static_cast<std::uint32_t>(token.id));
  if (!row.num_logprobs()) return;
  out.set_logprob(token.logprob);
  out.set_token_rank(static_cast<std::uint32_t>(token.rank));
  for (const TokenScore& top : token.top) {
    v1::TopToken& written = *out.add_top();
    written.set_token_id(static_cast<std::uint32_t>(top.id));
    written.set_logprob(top.score);
  }
}

// The first problem of a sequence stays, and takes the place of its tokens.
void Write(const RowToken& token, const LogitRow& row, v1::SlotTokens& out) {
  if (out.has_error()) return;
  if (token.status.ok()) {
    Write(token, row, row.is_sampled() ? *out.add_tokens() : *out.add_prompt_tokens());
    return;
  }
  out.clear_prompt_tokens();
  out.mutable_error()->set_code(token.status.raw_code());
  out.mutable_error()->set_message(std::string(token.status.message()));
}

absl::Status ModelExecutor::SampleInto(v1::StepResult& result) {
  const std::vector<LogitRow>& rows = slots_->batch().logit_rows;
  ASSIGN_OR_RETURN(const std::span<const RowToken> tokens, sampler_->Sample(runner_->logits(), rows));
  v1::SlotTokens* written = nullptr;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (written == nullptr || written->slot() != rows[i].slot) {
      written = result.add_slots();
      written->set_slot(rows[i].slot);
      written->set_epoch(rows[i].epoch);
    }
    Write(tokens[i], rows[i], *written);
    if (rows[i].is_sampled()) slots_->Append(rows[i], tokens[i].id);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> ModelExecutor::GatherLogits() {
  if (slots_->batch().num_logit_rows() == 0) return std::vector<float>();
  return sampler_->GatherLogits(runner_->logits());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> Executor::Load(const ExecutorOptions& options, Communicator& communicator,
                                                         LoadProgress& progress) {
  auto executor = std::make_unique<ModelExecutor>(options, communicator);
  RETURN_IF_ERROR(executor->Load(progress));
  return executor;
}

}  // namespace trireme::worker
