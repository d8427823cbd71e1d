// Programs made by hand: each collective and each op that only moves data, on three ranks.
#include "worker/program_runner.h"

#include <memory>
#include <vector>

#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sharding/checkpoint/checkpoint.h"
#include "tests/support/rank_harness.h"
#include "tests/worker/fixture_models.h"
#include "worker/cpu_ops.h"

namespace trireme::worker {
namespace {

using namespace sharding;  // NOLINT: the ops of programs

constexpr int kWorld = 3;
constexpr std::int64_t kWidth = 64;
constexpr char kTable[] = "model.embed_tokens.weight";

// A program over the embedding of the fixture llama: value 0 is its rows, each op makes the next value from
// the one before, and the last one's sampled rows are the logits.
class ChainOfOps {
 public:
  explicit ChainOfOps(int rank) {
    program_.rank = {rank, kWorld};
    program_.parameters = {
        {.name = kTable, .full_shape = {192, kWidth}, .slices = WholeTensor({192, kWidth}), .placement = Replicate()}};
    program_.vocabulary = kWidth;
    program_.logits_vocabulary = {0, kWidth};
    AddValue(Rows::kTokens, kWidth);
    program_.ops.push_back(
        {.module = "embed", .strategy = "", .kind = LocalEmbed{0, {0, 192}}, .inputs = {}, .output = 0});
  }

  ChainOfOps& Then(LocalOpKind kind, std::int64_t width, Rows rows = Rows::kTokens) {
    const int input = static_cast<int>(program_.values.size()) - 1;
    AddValue(rows, width);
    program_.ops.push_back(
        {.module = "", .strategy = "", .kind = std::move(kind), .inputs = {input, input}, .output = input + 1});
    return *this;
  }

  const CompiledProgram& Finish() {
    Then(SelectRowsOp(), program_.values.back().width, Rows::kSampled);
    program_.logits = static_cast<int>(program_.values.size()) - 1;
    return program_;
  }

 private:
  void AddValue(Rows rows, std::int64_t width) {
    program_.values.push_back(
        {.name = "", .rows = rows, .width = width, .placement = Replicate(), .arena_offset = program_.arena_width});
    program_.arena_width += width;
  }

  CompiledProgram program_;
};

Batch BatchOf(std::vector<std::int32_t> ids, std::vector<std::int32_t> logit_row_indices) {
  Batch batch;
  batch.token_ids = std::move(ids);
  batch.positions.assign(batch.token_ids.size(), 0);
  batch.logit_row_indices = std::move(logit_row_indices);
  batch.logit_rows.resize(batch.logit_row_indices.size());
  return batch;
}

// Runs the chain on each rank over `batch` and gives what each ends with.
std::vector<std::vector<float>> RunChain(const std::function<void(ChainOfOps&, int rank)>& add_ops,
                                         const Batch& batch) {
  std::vector<std::vector<float>> by_rank(kWorld);
  const auto results = test_support::RunRanks(kWorld, [&](Communicator& communicator) -> absl::Status {
    const int rank = communicator.rank().index;
    ChainOfOps chain(rank);
    add_ops(chain, rank);
    const CompiledProgram& program = chain.Finish();
    ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(FixtureModel("llama")));
    const auto ops = MakeCpuOps({.max_rows = 8});
    LoadProgress progress;
    ASSIGN_OR_RETURN(const Weights weights, Weights::Load(program, *checkpoint, DType::kF32, *ops, progress));
    ASSIGN_OR_RETURN(const auto cache, KvCache::Allocate({.groups = {}, .block_tokens = 16}, *ops));
    ASSIGN_OR_RETURN(
        const auto runner,
        ProgramRunner::Create(
            {.program = program, .weights = weights, .kv_cache = *cache, .ops = *ops, .communicator = communicator},
            8));
    RETURN_IF_ERROR(runner->Run(batch));
    const std::span<const float> result = runner->logits().span();
    by_rank[rank].assign(result.begin(), result.end());
    return absl::OkStatus();
  });
  EXPECT_TRUE(test_support::FirstCause(results).ok()) << test_support::FirstCause(results);
  return by_rank;
}

// factor · the embedding of each id, one behind the other.
std::vector<float> Embeddings(const std::vector<std::int32_t>& ids, float factor) {
  const auto checkpoint = Checkpoint::Open(FixtureModel("llama"));
  std::vector<float> table(192 * kWidth), rows;
  EXPECT_TRUE((*checkpoint)->ReadWhole(kTable, DType::kF32, table.data()).ok());
  for (std::int32_t id : ids) {
    for (std::int64_t c = 0; c < kWidth; ++c) rows.push_back(factor * table[id * kWidth + c]);
  }
  return rows;
}

void ExpectOnAllRanks(const std::vector<std::vector<float>>& by_rank, const std::vector<float>& expected) {
  for (const std::vector<float>& result : by_rank) {
    ASSERT_EQ(result.size(), expected.size());
    for (std::size_t i = 0; i < result.size(); ++i) ASSERT_NEAR(result[i], expected[i], 1e-5) << "element " << i;
  }
}

// Uneven, of several intervals, one of them empty; together they are all features.
const std::vector<Intervals> kParts = {{{0, 3}, {10, 31}}, {}, {{3, 10}, {31, 64}}};
// Ranks 0 and 1 hold the same.
const std::vector<Intervals> kOverlapping = {{{0, 32}}, {{0, 32}}, {{32, 64}}};

const std::vector<std::int32_t> kIds = {5, 191, 0, 5, 77};

TEST(ProgramRunner, AllReduceAddsUp) {
  const auto results = RunChain([](ChainOfOps& chain, int) { chain.Then(AllReduce(), kWidth); }, BatchOf(kIds, {0, 4}));
  ExpectOnAllRanks(results, Embeddings({5, 77}, 3));
}

TEST(ProgramRunner, ASliceIsGatheredAgain) {
  for (const std::vector<Intervals>& parts : {kParts, kOverlapping}) {
    const auto add_ops = [&](ChainOfOps& chain, int rank) {
      chain.Then(LocalSlice{parts[rank]}, TotalSize(parts[rank])).Then(AllGather{parts}, kWidth);
    };
    ExpectOnAllRanks(RunChain(add_ops, BatchOf(kIds, {1, 2, 3})), Embeddings({191, 0, 5}, 1));
  }
}

TEST(ProgramRunner, AScatteredSumIsGatheredAgain) {
  const auto add_ops = [&](ChainOfOps& chain, int rank) {
    chain.Then(ReduceScatter{kParts}, TotalSize(kParts[rank])).Then(AllGather{kParts}, kWidth);
  };
  ExpectOnAllRanks(RunChain(add_ops, BatchOf(kIds, {4, 0})), Embeddings({77, 5}, 3));
}

TEST(ProgramRunner, ScalesAndAdds) {
  const auto add_ops = [&](ChainOfOps& chain, int) { chain.Then(ScaleOp{0.5f}, kWidth).Then(AddOp(), kWidth); };
  ExpectOnAllRanks(RunChain(add_ops, BatchOf(kIds, {0})), Embeddings({5}, 1));  // (x / 2) + (x / 2)
}

TEST(ProgramRunner, OpsOnSampledRowsAreLeftOutWhereNoneIsSampled) {
  const auto add_ops = [&](ChainOfOps& chain, int) {
    chain.Then(SelectRowsOp(), kWidth, Rows::kSampled).Then(AllReduce(), kWidth, Rows::kSampled);
  };
  ExpectOnAllRanks(RunChain(add_ops, BatchOf(kIds, {})), {});
}

TEST(ProgramRunner, ABatchWithoutRowsIsNothingToDo) {
  const auto add_ops = [&](ChainOfOps& chain, int) { chain.Then(AllReduce(), kWidth); };
  ExpectOnAllRanks(RunChain(add_ops, BatchOf({}, {})), {});
}

}  // namespace
}  // namespace trireme::worker
