// How one module is made parallel. A strategy is an object whose hooks all have a default that does nothing;
// the built-in ones are listed in registry.cc, a user's own is a class and one Register call.
//
// Names and meaning follow Transformers' ParallelInterface and Diffusers' packed styles. The layout compiler
// works out from the parameters' placements what an op needs and gives, and refuses a strategy whose layouts
// contradict that. On a single rank all layouts are Replicate and only ValidateParameter is called.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "sharding/placement/placement.h"
#include "sharding/program/program.h"

namespace trireme::sharding {

// One parameter of the module that the strategy was named for.
struct ParameterRole {
  const Parameter& parameter;
  bool is_bias = false;       // the module's additive bias
  bool is_embedding = false;  // an embedding's table
};

// Immutable; may be used from any number of threads.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // As a plan names it: "colwise".
  virtual std::string_view name() const = 0;

  // Refuses a parameter before any weight is read. Default: anything goes. (What an axis forbids by its
  // Division is refused by the compiler in any case.)
  virtual absl::Status ValidateParameter(const ParameterRole& role, int world) const;

  // How the parameter is spread over the ranks: Replicate, Shard or StridedShard. Default: Replicate.
  virtual Placement ShardParameter(const ParameterRole& role) const;

  // The layout in which the module wants its input. A module that wants Shard may also be given Replicate:
  // the compiler slices it. Default: Replicate.
  virtual Placement InputLayout() const;

  // The layout that the module's own computation gives. Default: Replicate.
  virtual Placement ComputedLayout() const;

  // The layout that users of the module are given; the compiler inserts the collective that leads there from
  // ComputedLayout. Partial means: leave the sum open, the compiler reduces at the first use that cannot
  // carry it. Default: ComputedLayout().
  virtual Placement OutputLayout() const;
};

// Strategies by name.
class StrategyRegistry {
 public:
  // With the built-in ones: replicate, colwise, rowwise, colwise_gather_output, embedding_rowwise, packed_colwise.
  static StrategyRegistry BuiltIn();

  // AlreadyExists if the name is taken.
  absl::Status Register(std::shared_ptr<const Strategy> strategy);

  // Null if there is none of that name.
  std::shared_ptr<const Strategy> Find(std::string_view name) const;

  // Sorted, for messages.
  std::vector<std::string> Names() const;

 private:
  std::vector<std::shared_ptr<const Strategy>> strategies_;
};

}  // namespace trireme::sharding
