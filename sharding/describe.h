// What a compiled program does, for people and for JSON: the contents of `trireme plan`.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sharding/program/compiled_program.h"

namespace trireme::sharding {

struct ParameterDescription {
  std::string name;
  std::string placement;  // "shard(0)"
  std::vector<std::int64_t> full_shape;
  std::vector<std::int64_t> local_shape;
  std::vector<Intervals> slices;  // one list per dimension
  std::int64_t local_bytes = 0;
  bool shared = false;  // read for a module before this one already
};

struct ModuleDescription {
  std::string module;
  std::string strategy;
  std::vector<ParameterDescription> parameters;
  // Without what is held for a module before this one already. A tied head is held beside the embedding: a table to
  // look up rows in and a weight packed for products differ.
  std::int64_t local_bytes = 0;
};

struct CollectiveDescription {
  std::string kind;           // "all_reduce", "all_gather", "reduce_scatter"
  std::string module;         // whose output it is; empty for that of a residual
  std::int64_t features = 0;  // of the whole row, in float32
  Rows rows = Rows::kTokens;
};

struct ProgramDescription {
  Rank rank;
  std::vector<ModuleDescription> modules;  // those with parameters, in order of execution
  std::vector<CollectiveDescription> collectives;
  std::int64_t weight_bytes = 0;                // of this rank
  std::int64_t replicated_weight_bytes = 0;     // of these, what every rank has
  std::int64_t kv_cache_bytes_per_token = 0;    // of this rank
  std::int64_t activation_bytes_per_token = 0;  // of the arena
  Interval logits_vocabulary;
  std::int64_t vocabulary = 0;
};

// Bytes of an element as the rank will hold it, whatever the checkpoint's type: 4 for float32, 2 for bfloat16. Norms
// and biases are float32 in any case; a packed weight's padding is not counted.
struct ElementBytes {
  int weights = 4;
  int kv_cache = 4;
};
ProgramDescription Describe(const CompiledProgram& program, ElementBytes bytes);

// The same fields under the same names; intervals as [begin, end].
nlohmann::json ToJson(const ProgramDescription& description);

}  // namespace trireme::sharding
