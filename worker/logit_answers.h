// What a rank is asked about its part of the vocabulary, and what it answers. Plain data that ranks exchange as bytes.
#pragma once
#include <cstdint>

#include "kernels/sampling.h"

namespace trireme::worker {

using kernels::cpu::GumbelDraw;
using kernels::cpu::LogSumExp;
using kernels::cpu::TokenScore;

// About one row of logits.
struct LogitQuestion {
  float temperature = 0;                  // 0: the best logit is asked for, else the best Gumbel score
  GumbelDraw draw = {};                   // for temperature > 0
  bool wants_log_sum_exp = false;         // of the logits as they are
  bool wants_scaled_log_sum_exp = false;  // of logits / temperature
  std::int32_t num_candidates = 0;        // this many of the greatest logits
};

// Neutral (see kernels/sampling.h) where nothing was asked, or the part is empty. Candidates travel beside it.
struct LogitAnswer {
  TokenScore best;       // score: logit, or Gumbel score
  float best_logit = 0;  // the logit of `best`
  LogSumExp log_sum_exp;
  LogSumExp scaled_log_sum_exp;
};

// Of two parts of the vocabulary together. Parts must be joined in the order of their ids for the same bits everywhere.
LogitAnswer JoinAnswers(const LogitAnswer& a, const LogitAnswer& b);

}  // namespace trireme::worker
