// `trireme plan`.
#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/flags.h"
#include "base/status_macros.h"
#include "client/cli/commands.h"
#include "client/cli/plan_text.h"
#include "sharding/describe.h"
#include "sharding/model.h"
#include "sharding/plan/plan_file.h"
#include "sharding/program/compile.h"

namespace trireme::client {
namespace {

using nlohmann::ordered_json;
using sharding::ElementBytes;
using sharding::Model;
using sharding::ProgramDescription;

constexpr char kProgram[] = "trireme plan";

struct Options {
  std::string model;
  std::int32_t tp_degree = 1;
  std::int32_t rank = 0;
  std::string plan;
  std::string dtype = "float32";
  bool json = false;
};

absl::Status ParseDType(std::string_view text, std::string* dtype) {
  if (text != "float32" && text != "bfloat16") {
    return absl::InvalidArgumentError(absl::StrCat("expected float32 or bfloat16, got \"", std::string(text), "\""));
  }
  *dtype = text;
  return absl::OkStatus();
}

FlagParser DeclareFlags(Options* options) {
  FlagParser flags(kProgram, "shows how a model would be cut, from its headers alone; exit status 0: it fits");
  flags.AddRequired("model", "PATH", "checkpoint folder or .gguf file", &options->model);
  flags.AddRequired("tp-degree", "N", "ranks", &options->tp_degree);
  flags.Add("plan", "FILE", "rules over the family's own: JSON, module pattern to strategy", &options->plan);
  flags.Add("rank", "R", "whose modules to show", &options->rank);
  flags.AddParsed(
      "dtype", "TYPE", "what weights and KV cache would be held in: float32, bfloat16",
      [options](std::string_view text) { return ParseDType(text, &options->dtype); }, options->dtype);
  flags.AddSwitch("json", "one JSON object, with every module of every rank", &options->json);
  return flags;
}

absl::Status CheckOptions(const Options& options) {
  if (options.tp_degree < 1 || options.tp_degree > sharding::kMaxTpDegree) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tp-degree: expected a number from 1 to ", sharding::kMaxTpDegree, ", got ", options.tp_degree));
  }
  if (options.rank < 0 || options.rank >= options.tp_degree) {
    return absl::InvalidArgumentError(
        absl::StrCat("--rank: expected a number from 0 to ", options.tp_degree - 1, ", got ", options.rank));
  }
  return absl::OkStatus();
}

absl::StatusOr<Model> Open(const Options& options) {
  sharding::Plan rules;
  if (!options.plan.empty()) {
    ASSIGN_OR_RETURN(rules, sharding::ReadPlanFile(options.plan));
  }
  return sharding::OpenModel(options.model, sharding::StrategyRegistry::BuiltIn(), rules);
}

// REQUIRES: CheckTpDegree, which answers for all ranks.
std::vector<ProgramDescription> DescribeRanks(const Model& model, const Options& options) {
  const int bytes = options.dtype == "float32" ? 4 : 2;
  std::vector<ProgramDescription> ranks;
  for (int rank = 0; rank < options.tp_degree; ++rank) {
    const absl::StatusOr<sharding::CompiledProgram> program =
        sharding::Compile(model.program, model.plan, {.index = rank, .world = options.tp_degree});
    CHECK_OK(program.status());
    ranks.push_back(sharding::Describe(*program, ElementBytes{.weights = bytes, .kv_cache = bytes}));
  }
  return ranks;
}

ordered_json JsonHead(const Options& options) {
  return {{"model", options.model}, {"tp_degree", options.tp_degree}, {"dtype", options.dtype}};
}

void PrintJson(const ordered_json& json, std::ostream& out) {
  out << json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << "\n";
}

// `model` is null where no degree is to blame.
int Refuse(const Options& options, const Model* model, const absl::Status& status, Terminal& terminal) {
  if (options.json) {
    ordered_json json = JsonHead(options);
    json["fits"] = false;
    if (model == nullptr) {
      json["problems"] = std::vector<std::string>(absl::StrSplit(status.message(), '\n'));
    } else {
      json["valid_tp_degrees"] = model->valid_tp_degrees;
      json["problems"] = sharding::TpDegreeProblems(*model, options.tp_degree);
    }
    PrintJson(json, terminal.out);
  }
  return ReportFailure(kProgram, status, terminal);
}

void PrintPlanAsJson(const Options& options, const Model& model, const std::vector<ProgramDescription>& ranks,
                     std::ostream& out) {
  ordered_json json = JsonHead(options);
  json["fits"] = true;
  json["valid_tp_degrees"] = model.valid_tp_degrees;
  json["model_type"] = model.spec.model_type;
  json["family_has_plan"] = model.family_has_plan;
  for (const ProgramDescription& rank : ranks) json["ranks"].push_back(ordered_json(sharding::ToJson(rank)));
  PrintJson(json, out);
}

void PrintText(const Options& options, const Model& model, const std::vector<ProgramDescription>& ranks,
               std::ostream& out) {
  out << options.model << ": " << model.spec.model_type << ", tp_degree " << options.tp_degree << ", " << options.dtype
      << (model.family_has_plan ? "" : ", no plan of its own: replicated") << "\n\n"
      << ShowProgram(ranks[static_cast<std::size_t>(options.rank)]) << "\nRanks\n"
      << ShowRanks(ranks) << "\nValid tp_degree: " << absl::StrJoin(model.valid_tp_degrees, ", ") << "\n";
}

}  // namespace

int RunPlan(const Arguments& arguments, Terminal& terminal) {
  Options options;
  const FlagParser flags = DeclareFlags(&options);
  if (const auto status = ParseOrExit(flags, arguments, terminal.out, terminal.err)) return *status;
  if (const absl::Status status = CheckOptions(options); !status.ok()) {
    terminal.err << kProgram << ": " << std::string(status.message()) << "\nSee " << kProgram << " --help.\n";
    return kExitUsage;
  }
  const absl::StatusOr<Model> model = Open(options);
  if (!model.ok()) return Refuse(options, nullptr, model.status(), terminal);
  const absl::Status fits = sharding::CheckTpDegree(*model, options.tp_degree);
  if (!fits.ok()) return Refuse(options, &*model, fits, terminal);
  const std::vector<ProgramDescription> ranks = DescribeRanks(*model, options);
  if (options.json) {
    PrintPlanAsJson(options, *model, ranks, terminal.out);
  } else {
    PrintText(options, *model, ranks, terminal.out);
  }
  return kExitOk;
}

}  // namespace trireme::client
