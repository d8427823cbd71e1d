#include "client/bench/request_record.h"

#include <cstddef>

namespace trireme::client {

std::optional<absl::Duration> TimeToFirstToken(const RequestRecord& record) {
  if (record.arrivals.empty()) return std::nullopt;
  return record.arrivals.front().at - record.due;
}

std::vector<absl::Duration> InterTokenGaps(const RequestRecord& record) {
  std::vector<absl::Duration> gaps;
  for (std::size_t i = 1; i < record.arrivals.size(); ++i) {
    gaps.push_back(record.arrivals[i].at - record.arrivals[i - 1].at);
  }
  return gaps;
}

std::optional<absl::Duration> TimePerOutputToken(const RequestRecord& record) {
  std::int64_t later_tokens = 0;
  for (std::size_t i = 1; i < record.arrivals.size(); ++i) later_tokens += record.arrivals[i].num_tokens;
  if (later_tokens == 0) return std::nullopt;
  return (record.arrivals.back().at - record.arrivals.front().at) / later_tokens;
}

absl::Duration EndToEnd(const RequestRecord& record) { return record.ended - record.due; }

}  // namespace trireme::client
