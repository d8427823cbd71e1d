// What config.json files of many families have in common.
#pragma once
#include <cstdint>

#include "sharding/families/config_reader.h"
#include "sharding/program/program.h"

namespace trireme::sharding {

// Notes as known the keys that every Transformers config may have: harmless ones, and those that are only
// supported at the value that changes nothing (quantization_config, is_encoder_decoder, …).
void ReadGenericKeys(ConfigReader& config);

struct RopeDefaults {
  double theta = 10000;
  int dim = 0;  // rotary width
  std::int64_t max_positions = 0;
};
// The rotary table, from `rope_parameters` (Transformers 5) or `rope_theta` and `rope_scaling` (4). As
// Transformers does: rope_scaling goes before rope_parameters, and their own rope_theta before the one on
// top. Supported types: default, llama3.
RopeTable ReadRope(ConfigReader& config, const RopeDefaults& defaults);

}  // namespace trireme::sharding
