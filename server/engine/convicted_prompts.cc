#include "server/engine/convicted_prompts.h"

#include <algorithm>
#include <utility>

namespace trireme::server {

void ConvictedPrompts::Add(std::vector<std::uint32_t> prompt, absl::Time now) {
  if (convictions_.size() == kMaxConvictions) convictions_.pop_front();
  convictions_.push_back({.time = now, .prompt = std::move(prompt)});
}

bool ConvictedPrompts::Refuse(std::span<const std::uint32_t> prompt, absl::Time now) const {
  const auto counts = [prompt, now](const Conviction& conviction) {
    return now - conviction.time < kMemory && std::ranges::equal(conviction.prompt, prompt);
  };
  return static_cast<std::size_t>(std::count_if(convictions_.begin(), convictions_.end(), counts)) >= kRefusedAfter;
}

}  // namespace trireme::server
