// Flags that say how to generate, and what they make of a request.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/flags.h"
#include "trireme/v1/generate.pb.h"

namespace trireme::client {

// How tokens are chosen, and when the output ends. What is absent is the server's to choose.
struct GenerateFlags {
  std::optional<float> temperature;
  std::optional<std::uint32_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> typical_p;
  std::optional<float> repetition_penalty;
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
  std::map<std::uint32_t, float> logit_bias;
  std::vector<std::string> bad_words;
  std::optional<std::uint64_t> seed;

  std::optional<std::uint32_t> max_tokens;
  std::optional<std::uint32_t> min_tokens;
  std::vector<std::string> stop;
  std::vector<std::uint32_t> stop_token_ids;
  bool include_stop = false;
  bool ignore_eos = false;
  std::optional<absl::Duration> time_limit;

  void Declare(FlagParser& flags);
  void Fill(v1::GenerateRequest& request) const;
};

// What is told of the output, and how the request is treated.
struct OutputFlags {
  std::optional<std::uint32_t> n;
  std::optional<std::uint32_t> logprobs;
  std::optional<std::uint32_t> prompt_logprobs;
  bool echo = false;
  bool skip_special_tokens = true;
  bool stream = true;

  std::string model;
  std::string request_id;
  std::optional<std::int32_t> priority;
  std::string cache_salt;

  void Declare(FlagParser& flags);
  void Fill(v1::GenerateRequest& request) const;
};

}  // namespace trireme::client
