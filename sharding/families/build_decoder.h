// From what a decoder computes (DecoderSpec) to the program that computes it. Switches on the spec's types
// and knows no family.
#pragma once
#include "sharding/families/decoder_spec.h"
#include "sharding/program/program.h"

namespace trireme::sharding {

// Token ids to logits, for all layers of `spec`.
Program BuildDecoder(const DecoderSpec& spec);

}  // namespace trireme::sharding
