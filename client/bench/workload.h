// What is asked of the server: the same requests each time, for the same options and seed.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/bench/length_distribution.h"
#include "client/bench/prompt_file.h"
#include "trireme/v1/generate.pb.h"
#include "trireme/v1/info.pb.h"

namespace trireme::client {

struct WorkloadOptions {
  LengthDistribution input_len = {.min = 128, .max = 128};  // of prompts that are made up
  LengthDistribution output_len = {.min = 64, .max = 64};
  std::vector<FilePrompt> prompts = {};  // in turn, over and over; none: made up
  std::uint64_t seed = 0;
  std::string cache_salt = {};  // of every request: what other runs left in the server's prefix cache is not found
  float temperature = 0;
  bool ignore_eos = true;   // else outputs may end before output_len
  bool stream = true;       // else there is one message, and no time to first token
  double cancel_share = 0;  // of the requests, 0 to 1; needs `stream`
};

struct PlannedRequest {
  v1::GenerateRequest request;
  // After so many tokens have come the client cancels it, somewhere before its end. Absent: it does not.
  std::optional<std::uint32_t> cancel_after_tokens;
};

// Made-up prompts are token ids, each of the vocabulary equally often but for the special ones that GetModelInfo names;
// so hardly any two share a beginning, and within a run a prefix cache gains nothing. Thread-safe.
class Workload {
 public:
  // InvalidArgument names the flags: lengths that together may exceed the model's context.
  static absl::StatusOr<Workload> Make(WorkloadOptions options, const v1::GetModelInfoResponse& model);

  // The request of this number; depends on nothing that was planned before.
  PlannedRequest Plan(std::uint64_t index) const { return PlanFrom(Random(options_.seed, 1 + index), index); }
  // Others of the same kind.
  PlannedRequest PlanWarmup(std::uint64_t index) const { return PlanFrom(Random(~options_.seed, 1 + index), index); }

 private:
  Workload(WorkloadOptions options, std::uint32_t vocab_size, std::vector<std::uint32_t> special_ids);
  PlannedRequest PlanFrom(Random random, std::uint64_t index) const;
  std::uint32_t OrdinaryToken(Random& random) const;

  WorkloadOptions options_;
  std::uint32_t num_ordinary_tokens_ = 0;
  std::vector<std::uint32_t> special_ids_;  // ascending, each once
};

// Another one each time.
std::string MakeCacheSalt();

}  // namespace trireme::client
