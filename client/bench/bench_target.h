// The server that is measured, by what it says of itself.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "client/inference_client.h"
#include "trireme/v1/info.pb.h"

namespace trireme::client {

struct BenchTarget {
  std::string address;
  v1::GetModelInfoResponse model = {};
  v1::GetServerInfoResponse server = {};
};

// The client's error if the server does not answer.
absl::StatusOr<BenchTarget> AskTarget(const std::string& address, InferenceClient& client, const CallOptions& call);

// "trireme-server 0.1.0 at 127.0.0.1:8700: smollm2, float32, 1 rank, at most 2048 tokens".
std::string ShowTarget(const BenchTarget& target);

// "server" of docs/benchmarks.md.
nlohmann::ordered_json TargetJson(const BenchTarget& target);

}  // namespace trireme::client
