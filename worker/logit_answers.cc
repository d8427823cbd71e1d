#include "worker/logit_answers.h"

namespace trireme::worker {

LogitAnswer JoinAnswers(const LogitAnswer& a, const LogitAnswer& b) {
  const bool b_is_better = kernels::cpu::Precedes(b.best, a.best);
  return {.best = b_is_better ? b.best : a.best,
          .best_logit = b_is_better ? b.best_logit : a.best_logit,
          .log_sum_exp = LogSumExp::Join(a.log_sum_exp, b.log_sum_exp),
          .scaled_log_sum_exp = LogSumExp::Join(a.scaled_log_sum_exp, b.scaled_log_sum_exp)};
}

}  // namespace trireme::worker
