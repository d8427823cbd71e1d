#include "sharding/program/compiled_program.h"

namespace trireme::sharding {
namespace {

// The visitors have an overload for each op: one that is forgotten does not compile.

struct ParametersVisitor {
  using Uses = std::vector<UsedParameter>;

  Uses operator()(const LocalEmbed& op) const { return {{op.table, UsedAs::kTable}}; }
  Uses operator()(const LocalLinear& op) const {
    Uses uses = {{op.weight, UsedAs::kWeight}};
    if (op.bias) uses.push_back({*op.bias, UsedAs::kVector});
    return uses;
  }
  Uses operator()(const LocalRmsNorm& op) const { return {{op.weight, UsedAs::kVector}}; }
  Uses operator()(const LocalRope&) const { return {}; }
  Uses operator()(const LocalAttention&) const { return {}; }
  Uses operator()(const GatedActivationOp&) const { return {}; }
  Uses operator()(const AddOp&) const { return {}; }
  Uses operator()(const ScaleOp&) const { return {}; }
  Uses operator()(const SelectRowsOp&) const { return {}; }
  Uses operator()(const LocalAddBias& op) const { return {{op.bias, UsedAs::kVector}}; }
  Uses operator()(const AllReduce&) const { return {}; }
  Uses operator()(const AllGather&) const { return {}; }
  Uses operator()(const ReduceScatter&) const { return {}; }
  Uses operator()(const LocalSlice&) const { return {}; }
};

struct MayWriteOverInputVisitor {
  bool operator()(const LocalEmbed&) const { return false; }
  bool operator()(const LocalLinear&) const { return false; }
  bool operator()(const LocalRmsNorm&) const { return false; }
  bool operator()(const LocalRope&) const { return true; }
  bool operator()(const LocalAttention&) const { return false; }
  bool operator()(const GatedActivationOp&) const { return false; }
  bool operator()(const AddOp&) const { return true; }
  bool operator()(const ScaleOp&) const { return true; }
  bool operator()(const SelectRowsOp&) const { return false; }
  bool operator()(const LocalAddBias&) const { return true; }
  bool operator()(const AllReduce&) const { return true; }
  bool operator()(const AllGather&) const { return false; }
  bool operator()(const ReduceScatter&) const { return false; }
  bool operator()(const LocalSlice&) const { return false; }
};

struct CollectiveNameVisitor {
  using Name = std::optional<std::string>;

  Name operator()(const LocalEmbed&) const { return std::nullopt; }
  Name operator()(const LocalLinear&) const { return std::nullopt; }
  Name operator()(const LocalRmsNorm&) const { return std::nullopt; }
  Name operator()(const LocalRope&) const { return std::nullopt; }
  Name operator()(const LocalAttention&) const { return std::nullopt; }
  Name operator()(const GatedActivationOp&) const { return std::nullopt; }
  Name operator()(const AddOp&) const { return std::nullopt; }
  Name operator()(const ScaleOp&) const { return std::nullopt; }
  Name operator()(const SelectRowsOp&) const { return std::nullopt; }
  Name operator()(const LocalAddBias&) const { return std::nullopt; }
  Name operator()(const AllReduce&) const { return "all_reduce"; }
  Name operator()(const AllGather&) const { return "all_gather"; }
  Name operator()(const ReduceScatter&) const { return "reduce_scatter"; }
  Name operator()(const LocalSlice&) const { return std::nullopt; }
};

}  // namespace

std::vector<std::int64_t> LocalParameter::local_shape() const {
  std::vector<std::int64_t> shape;
  for (const Intervals& intervals : slices) shape.push_back(TotalSize(intervals));
  return shape;
}

std::int64_t LocalParameter::num_elements() const {
  std::int64_t product = 1;
  for (const Intervals& intervals : slices) product *= TotalSize(intervals);
  return product;
}

std::vector<UsedParameter> ParametersOf(const LocalOpKind& kind) { return std::visit(ParametersVisitor(), kind); }

bool MayWriteOverInput(const LocalOpKind& kind) { return std::visit(MayWriteOverInputVisitor(), kind); }

std::optional<std::string> CollectiveName(const LocalOpKind& kind) { return std::visit(CollectiveNameVisitor(), kind); }

}  // namespace trireme::sharding
