// The cases of fixtures/processors.json that are served: logits, history and settings to the distribution that is
// sampled from. Transformers', or vLLM's where only that has the setting.
#pragma once
#include <string>
#include <vector>

#include "worker/batch.h"
#include "worker/sampling_settings.h"

namespace trireme::worker {

struct ProcessorCase {
  std::string name;
  std::vector<float> logits;
  std::vector<std::int32_t> tokens;  // prompt and output
  std::uint32_t num_prompt_tokens = 0;
  SamplingSettings settings;
  std::vector<double> probabilities;

  History history() const { return {tokens, num_prompt_tokens}; }
};

// All 72; fails the test otherwise. Not served: no_repeat_ngram_size, epsilon_cutoff, eta_cutoff.
std::vector<ProcessorCase> ReadProcessorCases();

// What penalties and bias make of the logits, written down without regard to speed. In float32, as the sampler has it.
std::vector<float> EditedLogits(const std::vector<float>& logits, const History& history,
                                const SamplingSettings& settings);

}  // namespace trireme::worker
