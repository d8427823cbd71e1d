#include "worker/logit_answers.h"

#include <algorithm>

namespace trireme::worker {

LogitAnswer JoinAnswers(const LogitAnswer& a, const LogitAnswer& b) {
  const bool b_is_better = kernels::cpu::Precedes(b.best, a.best);
  return {.best = b_is_better ? b.best : a.best,
          .best_logit = b_is_better ? b.best_logit : a.best_logit,
          .token_logit = std::max(a.token_logit, b.token_logit),
          .are_numbers = a.are_numbers && b.are_numbers,
          .log_sum_exp = LogSumExp::Join(a.log_sum_exp, b.log_sum_exp),
          .scaled_log_sum_exp = LogSumExp::Join(a.scaled_log_sum_exp, b.scaled_log_sum_exp)};
}

}  // namespace trireme::worker
