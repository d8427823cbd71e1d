// What `trireme plan` prints for people.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "sharding/describe.h"

namespace trireme::client {

// "576 B", "1.5 KiB", "30.0 MiB".
std::string ShowBytes(std::int64_t bytes);

// What a rank holds of a parameter: "[0:192, :]" of two dimensions, the first cut; "0:8+24:32" where it holds more than
// one range of a dimension, "none" where it holds nothing of it.
std::string ShowSlices(const sharding::ParameterDescription& parameter);

// Tables of one rank's modules and collectives, and its totals. Modules that differ only in the numbers of their names
// are one line ("model.layers.*.mlp.up_proj  x30").
std::string ShowProgram(const sharding::ProgramDescription& program);

// One line a rank: what it holds.
std::string ShowRanks(const std::vector<sharding::ProgramDescription>& ranks);

}  // namespace trireme::client
