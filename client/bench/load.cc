#include "client/bench/load.h"

#include <algorithm>
#include <memory>

namespace trireme::client {
namespace {

// Tells when the next request is due, and waits until then.
class Pacer {
 public:
  virtual ~Pacer() = default;
  // Nothing if the run was interrupted.
  virtual std::optional<absl::Duration> WaitForNext() = 0;
};

class OpenLoop final : public Pacer {
 public:
  OpenLoop(const LoadOptions& options, std::uint64_t seed, const RunClock& clock, CallGroup& calls)
      : arrivals_(*options.arrivals, seed), end_(options.duration), clock_(clock), calls_(calls) {}

  std::optional<absl::Duration> WaitForNext() override {
    const absl::Duration due = arrivals_.Next();
    if (due >= end_) return due;
    const GroupProgress progress =
        calls_.WaitUntil([](const GroupProgress& now) { return now.is_interrupted; }, clock_.ToWallTime(due));
    return progress.is_interrupted ? std::nullopt : std::optional(due);
  }

 private:
  Arrivals arrivals_;
  const absl::Duration end_;
  const RunClock clock_;
  CallGroup& calls_;
};

class ClosedLoop final : public Pacer {
 public:
  ClosedLoop(const LoadOptions& options, CallGroup& calls) : places_(options.concurrency), calls_(calls) {}

  // The first take the empty places; each later one that of the request which ended first and was not followed yet.
  std::optional<absl::Duration> WaitForNext() override {
    const std::size_t number = sent_++;
    const GroupProgress progress =
        calls_.WaitUntil([&](const GroupProgress& now) { return now.is_interrupted || number < places_ + now.ended; },
                         absl::InfiniteFuture());  // requests end by their timeout
    if (progress.is_interrupted) return std::nullopt;
    return number < places_ ? absl::ZeroDuration() : calls_.EndedAt(number - places_);
  }

 private:
  const std::size_t places_;
  CallGroup& calls_;
  std::size_t sent_ = 0;
};

std::unique_ptr<Pacer> MakePacer(const LoadOptions& options, std::uint64_t seed, const RunClock& clock,
                                 CallGroup& calls) {
  if (options.arrivals.has_value()) return std::make_unique<OpenLoop>(options, seed, clock, calls);
  return std::make_unique<ClosedLoop>(options, calls);
}

}  // namespace

LoadResult RunLoad(const Workload& workload, const LoadOptions& options, std::uint64_t arrival_seed,
                   const RunClock& clock, CallGroup& calls) {
  const std::unique_ptr<Pacer> pacer = MakePacer(options, arrival_seed, clock, calls);
  for (std::uint64_t i = 0; !options.num_requests || i < *options.num_requests; ++i) {
    PlannedRequest planned = workload.Plan(i);  // before it is due, so that it is not late for this
    const std::optional<absl::Duration> due = pacer->WaitForNext();
    if (!due.has_value() || *due >= options.duration) break;
    calls.Start(std::move(planned.request),
                {.due = *due, .timeout = options.timeout, .cancel_after_tokens = planned.cancel_after_tokens});
  }
  const GroupProgress progress = calls.WaitUntilAllEnded();
  return {.records = calls.TakeRecords(), .is_interrupted = progress.is_interrupted};
}

}  // namespace trireme::client
