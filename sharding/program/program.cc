#include "sharding/program/program.h"

namespace trireme::sharding {
namespace {

// An overload for each op: one that is forgotten does not compile.
struct HasParametersVisitor {
  bool operator()(const EmbedOp&) const { return true; }
  bool operator()(const LinearOp&) const { return true; }
  bool operator()(const RmsNormOp&) const { return true; }
  bool operator()(const RopeOp&) const { return false; }
  bool operator()(const AttentionOp&) const { return false; }
  bool operator()(const GatedActivationOp&) const { return false; }
  bool operator()(const AddOp&) const { return false; }
  bool operator()(const ScaleOp&) const { return false; }
  bool operator()(const SelectRowsOp&) const { return false; }
};

}  // namespace

bool HasParameters(const OpKind& kind) { return std::visit(HasParametersVisitor(), kind); }

}  // namespace trireme::sharding
