// The strategies that every registry has. How each cuts a module, and what it does to its input and output:
//
//   name                    weight [out, in]     bias        embedding [V, H]   input       output
//   replicate               whole                whole       whole              whole       whole
//   colwise                 out                  out         hidden             whole       shard
//   colwise_gather_output   out, must divide     out         hidden, as weight  whole       all-gathered
//   rowwise                 in                   whole       vocabulary         shard       partial
//   embedding_rowwise       refused              refused     vocabulary         ids         partial
//   packed_colwise          out, block by block  as weight   refused            whole       strided shard
//
// A partial output is left open: the compiler reduces it where its first user needs the sum. Transformers
// reduces at once; the result is the same, and two parallel branches need one reduction instead of two.
#pragma once
#include "sharding/strategy/strategy.h"

namespace trireme::sharding {

class ReplicateStrategy : public Strategy {
 public:
  std::string_view name() const override { return "replicate"; }
};

// Cuts what a module gives: each rank computes some of the output features.
class ColwiseStrategy : public Strategy {
 public:
  std::string_view name() const override { return "colwise"; }
  Placement ShardParameter(const ParameterRole& role) const override;
  Placement ComputedLayout() const override { return Shard{-1}; }
};

// As colwise; users see the whole output. Refuses sizes that do not divide, as Transformers does: it is
// gathered in equal parts.
class ColwiseGatherOutputStrategy : public ColwiseStrategy {
 public:
  std::string_view name() const override { return "colwise_gather_output"; }
  absl::Status ValidateParameter(const ParameterRole& role, int world) const override;
  Placement OutputLayout() const override { return Replicate{}; }
};

// Cuts what a module is given: each rank computes a summand of the output. A bias is added once, after the sum.
class RowwiseStrategy : public Strategy {
 public:
  std::string_view name() const override { return "rowwise"; }
  Placement ShardParameter(const ParameterRole& role) const override;
  Placement InputLayout() const override { return Shard{-1}; }
  Placement ComputedLayout() const override { return Partial{}; }
};

// Cuts an embedding's vocabulary: a rank gives zero rows for ids it does not hold.
class EmbeddingRowwiseStrategy : public Strategy {
 public:
  std::string_view name() const override { return "embedding_rowwise"; }
  absl::Status ValidateParameter(const ParameterRole& role, int world) const override;
  Placement ShardParameter(const ParameterRole& role) const override;
  Placement ComputedLayout() const override { return Partial{}; }
};

// Colwise for weights of several blocks laid one after another (gate|up): each block is cut by itself, so
// that a rank holds matching parts of all. The bias is cut like the weight (Transformers cuts it in one
// piece, and is wrong).
class PackedColwiseStrategy : public Strategy {
 public:
  std::string_view name() const override { return "packed_colwise"; }
  absl::Status ValidateParameter(const ParameterRole& role, int world) const override;
  Placement ShardParameter(const ParameterRole& role) const override;
  Placement ComputedLayout() const override { return StridedShard{-1}; }
};

}  // namespace trireme::sharding
