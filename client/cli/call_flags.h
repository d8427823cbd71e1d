// Flags that the commands which call a server have in common.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "base/flags.h"
#include "client/inference_client.h"
#include "trireme/v1/generate.pb.h"

namespace trireme::client {

struct TargetFlags {
  std::string target = ClientOptions().target;
  std::optional<absl::Duration> timeout;

  void Declare(FlagParser& flags);
  ClientOptions client_options() const;
  CallOptions call_options() const;  // the time runs from now
};

// How to generate. What is absent is the server's to choose.
struct GenerateFlags {
  std::optional<std::uint32_t> max_tokens;
  std::optional<float> temperature;
  std::optional<std::uint32_t> top_k;
  std::optional<float> top_p;
  std::optional<std::uint64_t> seed;
  bool ignore_eos = false;

  void Declare(FlagParser& flags);
  void Fill(v1::GenerateRequest& request) const;
};

}  // namespace trireme::client
