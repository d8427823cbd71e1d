#include "tests/support/reference_program.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/check.h"
#include "sharding/placement/tensor_slices.h"

namespace trireme::testing {
namespace {

using namespace trireme::sharding;  // NOLINT: the whole vocabulary of programs

// Runs the ops of a Program on full shapes.
class FullRun {
 public:
  FullRun(const Program& program, const TensorMap& tensors, const Prompt& prompt)
      : program_(program), tensors_(tensors), prompt_(prompt), values_(program.values.size()) {}

  Matrix Run() {
    for (const Op& op : program_.ops) {
      std::vector<Matrix> inputs;
      for (const ValueId input : op.inputs) inputs.push_back(values_[input]);
      values_[op.output] = std::visit([&](const auto& kind) { return RunOp(kind, inputs); }, op.kind);
    }
    return values_[program_.logits];
  }

 private:
  using Inputs = std::vector<Matrix>;

  Matrix RunOp(const EmbedOp& op, const Inputs&) const {
    return Embed(Tensor(op.table), {0, Tensor(op.table).rows}, prompt_.tokens);
  }
  Matrix RunOp(const LinearOp& op, const Inputs& in) const {
    return Linear(in[0], Tensor(op.weight), op.bias ? Vector(*op.bias) : std::span<const float>());
  }
  Matrix RunOp(const RmsNormOp& op, const Inputs& in) const { return RmsNorm(in[0], Vector(op.weight), op.epsilon); }
  Matrix RunOp(const RopeOp& op, const Inputs& in) const {
    return Rope(in[0], program_.rope_tables[op.table], op.head_dim);
  }
  Matrix RunOp(const AttentionOp& op, const Inputs& in) const {
    return Attention(in[0], in[1], in[2], {op.num_heads, op.num_kv_heads, op.head_dim, op.scale});
  }
  Matrix RunOp(const GatedActivationOp& op, const Inputs& in) const {
    return GatedActivation(in[0], in[1], op.activation);
  }
  Matrix RunOp(const AddOp&, const Inputs& in) const { return Add(in[0], in[1]); }
  Matrix RunOp(const ScaleOp& op, const Inputs& in) const { return Scale(in[0], op.factor); }
  Matrix RunOp(const SelectRowsOp&, const Inputs& in) const { return SelectRows(in[0], prompt_.sampled); }

  const Matrix& Tensor(ParameterId id) const { return tensors_.at(program_.parameters[id].name); }
  std::span<const float> Vector(ParameterId id) const { return Tensor(id).data; }

  const Program& program_;
  const TensorMap& tensors_;
  const Prompt& prompt_;
  std::vector<Matrix> values_;
};

Matrix CutParameter(const LocalParameter& parameter, const Matrix& full) {
  const TensorSlices part{
      .full_shape = parameter.full_shape, .slices = parameter.slices, .element_bytes = sizeof(float)};
  const std::vector<std::int64_t> shape = parameter.local_shape();
  Matrix local(shape.size() == 1 ? 1 : shape[0], shape.back());
  CutTensor(part, std::as_bytes(std::span(full.data)), std::as_writable_bytes(std::span(local.data)));
  return local;
}

bool SameBits(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

// What one rank holds.
class RankRun {
 public:
  RankRun(const CompiledProgram& program, const ReadParameter& read, const Prompt& prompt)
      : program_(program),
        prompt_(prompt),
        arena_(program.arena_width * NumTokens(), std::numeric_limits<float>::quiet_NaN()) {
    for (const LocalParameter& parameter : program.parameters) {
      parameters_.push_back(read(parameter));
    }
  }

  const CompiledProgram& program() const { return program_; }

  // Any op but a collective.
  void RunLocalOp(const LocalOp& op) {
    std::vector<Matrix> inputs;
    for (const ValueId input : op.inputs) inputs.push_back(Load(input));
    Store(op.output, std::visit([&](const auto& kind) { return RunOp(kind, inputs); }, op.kind));
  }

  Matrix Load(ValueId id) const {
    const LocalValue& value = program_.values[id];
    Matrix matrix(NumRows(value), value.width);
    std::copy_n(arena_.begin() + Begin(value), matrix.data.size(), matrix.data.begin());
    return matrix;
  }

  void Store(ValueId id, const Matrix& matrix) {
    const LocalValue& value = program_.values[id];
    CHECK_EQ(matrix.cols, value.width) << value.name;
    CHECK_EQ(matrix.rows, NumRows(value)) << value.name;
    CHECK_LE(value.arena_offset + value.width, program_.arena_width) << value.name;
    std::copy(matrix.data.begin(), matrix.data.end(), arena_.begin() + Begin(value));
  }

 private:
  using Inputs = std::vector<Matrix>;

  Matrix RunOp(const LocalEmbed& op, const Inputs&) const {
    return Embed(parameters_[op.table], op.vocabulary, prompt_.tokens);
  }
  Matrix RunOp(const LocalLinear& op, const Inputs& in) const {
    return Linear(in[0], parameters_[op.weight], op.bias ? Vector(*op.bias) : std::span<const float>());
  }
  Matrix RunOp(const LocalRmsNorm& op, const Inputs& in) const { return RmsNorm(in[0], Vector(op.weight), op.epsilon); }
  Matrix RunOp(const LocalRope& op, const Inputs& in) const {
    CHECK_EQ(in[0].cols, std::int64_t{op.num_heads} * op.head_dim);
    return Rope(in[0], program_.rope_tables[op.table], op.head_dim);
  }
  Matrix RunOp(const LocalAttention& op, const Inputs& in) const {
    CHECK_EQ(op.num_kv_heads, program_.kv_groups[op.kv_group].num_kv_heads);
    CHECK_LT(op.layer_in_group, program_.kv_groups[op.kv_group].num_layers);
    return Attention(in[0], in[1], in[2], {op.num_heads, op.num_kv_heads, op.head_dim, op.scale});
  }
  Matrix RunOp(const GatedActivationOp& op, const Inputs& in) const {
    return GatedActivation(in[0], in[1], op.activation);
  }
  Matrix RunOp(const AddOp&, const Inputs& in) const { return Add(in[0], in[1]); }
  Matrix RunOp(const ScaleOp& op, const Inputs& in) const { return Scale(in[0], op.factor); }
  Matrix RunOp(const SelectRowsOp&, const Inputs& in) const { return SelectRows(in[0], prompt_.sampled); }
  Matrix RunOp(const LocalAddBias& op, const Inputs& in) const { return AddBias(in[0], Vector(op.bias)); }
  Matrix RunOp(const LocalSlice& op, const Inputs& in) const { return SliceColumns(in[0], op.part); }
  template <typename Collective>
  Matrix RunOp(const Collective&, const Inputs&) const {
    CHECK(false) << "a collective is not run by one rank";
    return {};
  }

  std::span<const float> Vector(LocalParameterId id) const { return parameters_[id].data; }
  std::int64_t NumTokens() const { return static_cast<std::int64_t>(prompt_.tokens.size()); }
  std::int64_t NumRows(const LocalValue& value) const {
    return value.rows == Rows::kTokens ? NumTokens() : static_cast<std::int64_t>(prompt_.sampled.size());
  }
  std::int64_t Begin(const LocalValue& value) const { return value.arena_offset * NumTokens(); }

  const CompiledProgram& program_;
  const Prompt& prompt_;
  std::vector<Matrix> parameters_;
  std::vector<float> arena_;
};

// All ranks, op by op.
class LockStep {
 public:
  LockStep(std::span<const CompiledProgram> programs, const ReadParameter& read, const Prompt& prompt) {
    for (const CompiledProgram& program : programs) ranks_.emplace_back(program, read, prompt);
    for (const RankRun& rank : ranks_) CHECK_EQ(rank.program().ops.size(), first().ops.size());
  }

  Matrix Run() {
    for (std::size_t i = 0; i < first().ops.size(); ++i) {
      CheckSameOp(i);
      if (CollectiveName(first().ops[i].kind)) {
        RunCollective(i);
      } else {
        for (RankRun& rank : ranks_) rank.RunLocalOp(rank.program().ops[i]);
      }
      CheckReplicas(first().ops[i].output);
    }
    return GatherLogits();
  }

 private:
  const CompiledProgram& first() const { return ranks_.front().program(); }

  void CheckSameOp(std::size_t i) const {
    for (const RankRun& rank : ranks_) {
      const LocalOp& op = rank.program().ops[i];
      CHECK_EQ(op.module, first().ops[i].module);
      CHECK_EQ(op.kind.index(), first().ops[i].kind.index()) << op.module;
      CHECK(op.inputs == first().ops[i].inputs && op.output == first().ops[i].output) << op.module;
    }
  }

  void RunCollective(std::size_t i) {
    std::vector<Matrix> pieces;
    for (const RankRun& rank : ranks_) pieces.push_back(rank.Load(first().ops[i].inputs[0]));
    for (RankRun& rank : ranks_) {
      const LocalOp& op = rank.program().ops[i];
      rank.Store(op.output, Combine(op.kind, pieces, rank.program().rank, FullWidth(op)));
    }
  }

  static Matrix Combine(const LocalOpKind& kind, const std::vector<Matrix>& pieces, Rank rank, std::int64_t width) {
    if (std::holds_alternative<AllReduce>(kind)) return Sum(pieces);
    if (const auto* scatter = std::get_if<ReduceScatter>(&kind)) {
      return SliceColumns(Sum(pieces), scatter->parts[rank.index]);
    }
    const auto& gather = std::get<AllGather>(kind);
    Matrix whole(pieces.front().rows, width);
    for (std::size_t r = 0; r < pieces.size(); ++r) PlaceColumns(pieces[r], gather.parts[r], whole);
    return whole;
  }

  static Matrix Sum(const std::vector<Matrix>& summands) {
    Matrix sum = summands.front();
    for (std::size_t i = 1; i < summands.size(); ++i) sum = Add(sum, summands[i]);
    return sum;
  }

  std::int64_t FullWidth(const LocalOp& op) const { return first().values[op.output].width; }

  // A reduction that is missing, or a replicated tensor that differs, shows here.
  void CheckReplicas(ValueId value) const {
    if (!std::holds_alternative<Replicate>(first().values[value].placement)) return;
    const Matrix expected = ranks_.front().Load(value);
    for (const RankRun& rank : ranks_) {
      CHECK(std::ranges::equal(rank.Load(value).data, expected.data, SameBits))
          << first().values[value].name << " differs on rank " << rank.program().rank.index;
    }
  }

  Matrix GatherLogits() const {
    Matrix whole;
    for (const RankRun& rank : ranks_) {
      const Matrix piece = rank.Load(rank.program().logits);
      if (whole.data.empty()) whole = Matrix(piece.rows, rank.program().vocabulary);
      PlaceColumns(piece, {rank.program().logits_vocabulary}, whole);
    }
    return whole;
  }

  std::vector<RankRun> ranks_;
};

}  // namespace

TensorMap RandomTensors(const Program& program, unsigned seed) {
  std::mt19937 random(seed);
  TensorMap tensors;
  for (const Parameter& parameter : program.parameters) {
    const bool is_vector = parameter.axes.size() == 1;
    Matrix tensor(is_vector ? 1 : parameter.axes[0].extent(), parameter.axes.back().extent());
    std::normal_distribution<float> weight(0, 1 / std::sqrt(static_cast<float>(tensor.cols)));
    std::uniform_real_distribution<float> element(0.3f, 1.7f);
    for (float& value : tensor.data) value = is_vector ? element(random) : weight(random);
    tensors[parameter.name] = std::move(tensor);
  }
  return tensors;
}

Prompt AllPositions(std::vector<int> tokens) {
  Prompt prompt{.tokens = std::move(tokens), .sampled = {}};
  prompt.sampled.resize(prompt.tokens.size());
  std::iota(prompt.sampled.begin(), prompt.sampled.end(), 0);
  return prompt;
}

Matrix RunProgram(const Program& program, const TensorMap& tensors, const Prompt& prompt) {
  return FullRun(program, tensors, prompt).Run();
}

ReadParameter PartsOf(const TensorMap& tensors) {
  return [&](const LocalParameter& parameter) { return CutParameter(parameter, tensors.at(parameter.name)); };
}

Matrix RunRanks(std::span<const CompiledProgram> ranks, const ReadParameter& read, const Prompt& prompt) {
  return LockStep(ranks, read, prompt).Run();
}

double LargestDifference(const Matrix& a, const Matrix& b) {
  if (a.rows != b.rows || a.cols != b.cols) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    const double difference = std::abs(double{a.data[i]} - b.data[i]);
    if (!(difference <= std::numeric_limits<double>::max())) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, difference);
  }
  return largest;
}

}  // namespace trireme::testing
