#include "client/bench/bench_target.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace trireme::client {

absl::StatusOr<BenchTarget> AskTarget(const std::string& address, InferenceClient& client, const CallOptions& call) {
  BenchTarget target{.address = address};
  ASSIGN_OR_RETURN(target.model, client.GetModelInfo(call));
  ASSIGN_OR_RETURN(target.server, client.GetServerInfo(call));
  return target;
}

std::string ShowTarget(const BenchTarget& target) {
  const std::uint32_t num_ranks = target.server.tp_degree();
  return absl::StrCat("trireme-server ", target.server.version(), " at ", target.address, ": ", target.model.model(),
                      ", ", target.server.dtype(), ", ", num_ranks, num_ranks == 1 ? " rank" : " ranks", ", at most ",
                      target.model.max_model_len(), " tokens");
}

nlohmann::ordered_json TargetJson(const BenchTarget& target) {
  return {{"address", target.address},
          {"version", target.server.version()},
          {"build_id", target.server.build_id()},
          {"tp_degree", target.server.tp_degree()},
          {"dtype", target.server.dtype()},
          {"model", target.model.model()},
          {"model_type", target.model.model_type()},
          {"max_model_len", target.model.max_model_len()}};
}

}  // namespace trireme::client
