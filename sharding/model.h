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

// Degrees above this are refused unseen.
inline constexpr int kMaxTpDegree = 128;

// Immutable; may be used from any number of threads.
struct Model {
  std::unique_ptr<const Checkpoint> checkpoint;
  DecoderSpec spec;
  Program program;
  ResolvedPlan plan;  // the family's, with the user's rules over it
  bool family_has_plan = false;
  std::vector<int> valid_tp_degrees;  // ascending, up to kMaxTpDegree
};

// Opens a Hugging Face folder or a GGUF file, finds its family, builds program and plan, and compares the program's
// parameters with the checkpoint's tensors. Reads headers only, and of GGUF the few numbers of rope_freqs.weight.
//
// NotFound: no such file. InvalidArgument: an architecture or config value that is not supported, an unknown
// config key, an unknown or missing tensor, a wrong shape; all of a kind at once, each by name. A plan that
// does not resolve.
absl::StatusOr<Model> OpenModel(const std::filesystem::path& path, const StrategyRegistry& registry,
                                const Plan& user_plan = {});

// Why `tp_degree` does not fit `model`: every problem. Empty if it fits.
std::vector<std::string> TpDegreeProblems(const Model& model, int tp_degree);

// InvalidArgument if there are any: one a line, and last the degrees that fit ("valid tp_degree: 1, 3, 9").
absl::Status CheckTpDegree(const Model& model, int tp_degree);

}  // namespace trireme::sharding
