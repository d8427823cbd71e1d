// The cases of fixtures/processors.json that use temperature, top_k and top_p only.
#pragma once
#include <string>
#include <vector>

#include "worker/sampling_settings.h"

namespace trireme::worker {

struct ProcessorCase {
  std::string name;
  std::vector<float> logits;
  SamplingSettings settings;
  std::vector<double> probabilities;  // Transformers'
};

// At least 20; fails the test otherwise.
std::vector<ProcessorCase> ReadProcessorCases();

}  // namespace trireme::worker
