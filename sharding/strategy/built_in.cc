#include "sharding/strategy/built_in.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace trireme::sharding {
namespace {

int LastDim(const ParameterRole& role) { return static_cast<int>(role.parameter.axes.size()) - 1; }

// The output features of a weight [..., out, in] or of a bias [out].
int OutputDim(const ParameterRole& role) { return std::max(LastDim(role) - 1, 0); }

int ColwiseDim(const ParameterRole& role) { return role.is_embedding ? LastDim(role) : OutputDim(role); }

}  // namespace

Placement ColwiseStrategy::ShardParameter(const ParameterRole& role) const { return Shard{ColwiseDim(role)}; }

absl::Status ColwiseGatherOutputStrategy::ValidateParameter(const ParameterRole& role, int world) const {
  const std::int64_t size = role.parameter.axes[ColwiseDim(role)].extent();
  if (size % world == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("an output of ", size, " features that is gathered in equal parts does not divide by ", world));
}

Placement RowwiseStrategy::ShardParameter(const ParameterRole& role) const {
  if (role.is_bias) return Replicate{};
  return Shard{role.is_embedding ? 0 : LastDim(role)};
}

absl::Status EmbeddingRowwiseStrategy::ValidateParameter(const ParameterRole& role, int) const {
  if (role.is_embedding) return absl::OkStatus();
  return absl::InvalidArgumentError("embedding_rowwise is for embeddings; a linear module takes rowwise");
}

Placement EmbeddingRowwiseStrategy::ShardParameter(const ParameterRole&) const { return Shard{0}; }

absl::Status PackedColwiseStrategy::ValidateParameter(const ParameterRole& role, int) const {
  if (!role.is_embedding) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "packed_colwise is for linear modules; an embedding takes colwise or embedding_rowwise");
}

Placement PackedColwiseStrategy::ShardParameter(const ParameterRole& role) const {
  return StridedShard{OutputDim(role)};
}

}  // namespace trireme::sharding
