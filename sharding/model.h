// A model that was opened and proved, of which only headers have been read. What `trireme plan`, the server's
// coordinator and each worker begin with.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sharding/checkpoint/checkpoint.h"
#include "sharding/families/decoder_spec.h"
#include "sharding/plan/plan.h"
#include "sharding/program/compile.h"

namespace trireme::sharding {

// Immutable; may be used from any number of threads.
struct Model {
  std::unique_ptr<const Checkpoint> checkpoint;
  DecoderSpec spec;
  Program program;
  ResolvedPlan plan;
  bool family_has_plan = false;
  std::vector<int> valid_tp_degrees;  // ascending
};

// Opens a Hugging Face folder or a GGUF file, finds its family, builds program and plan, and compares the program's
// parameters with the checkpoint's tensors.
//
// NotFound: no such file. InvalidArgument: an architecture or config value that is not supported, an unknown config
// key, an unknown or missing tensor, a wrong shape; all of a kind at once, each by name.
absl::StatusOr<Model> OpenModel(const std::filesystem::path& path, const StrategyRegistry& registry);

// InvalidArgument if `tp_degree` does not fit `model`: every problem, one a line, and the degrees that fit.
absl::Status CheckTpDegree(const Model& model, int tp_degree);

}  // namespace trireme::sharding
