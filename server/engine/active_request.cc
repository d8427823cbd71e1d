#include "server/engine/active_request.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/time/clock.h"

namespace trireme::server {
namespace {

std::vector<std::uint32_t> EndingTokenIds(const StoppingParams& stopping) {
  std::vector<std::uint32_t> ids;
  std::set_union(stopping.stop_token_ids.begin(), stopping.stop_token_ids.end(), stopping.eos_token_ids.begin(),
                 stopping.eos_token_ids.end(), std::back_inserter(ids));
  return ids;
}

}  // namespace

ActiveRequest::ActiveRequest(SubmitEvent event)
    : key(event.key),
      id(std::move(event.request.id)),
      n(event.request.n),
      priority(event.request.priority),
      prompt(std::move(event.request.prompt)),
      sampling(std::move(event.request.sampling)),
      stopping(std::move(event.request.stopping)),
      cache_salt(std::move(event.request.cache_salt)),
      ending_token_ids(EndingTokenIds(stopping)),
      deadline(event.request.deadline),
      observer(std::move(event.observer)),
      submitted(event.submitted),
      num_unfinished(n) {
  expires = std::min(deadline, absl::Now() + (event.request.time_limit - Age()));
}

RequestTimings ActiveRequest::TimingsAtEnd() const {
  return {.first_scheduled = first_scheduled, .first_token = first_token, .finished = Age()};
}

}  // namespace trireme::server
