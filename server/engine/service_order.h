// In which order sequences are served.
//
// By virtual arrival: the moment of Submit, earlier by a second for each step of priority. So waiting raises a sequence
// as priority does, and the order of two of them never changes: nothing need be sorted anew as time passes. Among
// equals it is that of arrival.
//
// A sequence is overtaken only by those that came at most (their priority - its own) seconds later, so a flood of
// urgent requests delays it, but never for ever.
#pragma once
#include <chrono>
#include <compare>
#include <cstdint>

namespace trireme::server {

// What one step of priority is worth in waiting.
constexpr std::chrono::seconds kWaitPerPriority{1};

struct ServiceOrder {
  std::chrono::steady_clock::time_point virtual_arrival;
  std::uint64_t key = 0;  // grows in order of arrival
  friend auto operator<=>(const ServiceOrder&, const ServiceOrder&) = default;
};

// The smaller is served first.
inline ServiceOrder OrderOf(std::chrono::steady_clock::time_point submitted, int priority, std::uint64_t key) {
  return {.virtual_arrival = submitted - priority * kWaitPerPriority, .key = key};
}

}  // namespace trireme::server
