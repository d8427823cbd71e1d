// A checkpoint's generation_config.json, and the ids that config.json has of old.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "server/service/served_model.h"

namespace trireme::server {

// Errors are InvalidArgument and name file, key and value.
struct GenerationConfig {
  nlohmann::json generation_config;  // {} if there is none
  nlohmann::json config;
  std::uint32_t vocab_size = 0;  // ids of the model are below it

  // Absent settings do nothing; so does top_k below 1. do_sample: false means greedy. (Transformers' default for
  // do_sample is false, too, but hardly any checkpoint that leaves it out is meant to be served greedily.)
  absl::StatusOr<SamplingDefaults> ReadSamplingDefaults() const;

  // Settings that change what is generated but that this version does not serve: "num_beams: 4".
  std::vector<std::string> UnservedSettings() const;

  // From generation_config, or else from config; each may be one id or a list. Those of eos and bos are below
  // vocab_size. Padding is used by nobody here, and some checkpoints have an id beyond the vocabulary for it.
  absl::StatusOr<std::set<std::uint32_t>> EosTokenIds() const;
  absl::StatusOr<std::optional<std::uint32_t>> BosTokenId() const;
  absl::StatusOr<std::optional<std::uint32_t>> PadTokenId() const;
};

}  // namespace trireme::server
