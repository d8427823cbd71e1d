// What a rank is asked about its part of the vocabulary, and what it answers. Answers are plain data that ranks
// exchange as bytes.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "kernels/sampling.h"

namespace trireme::worker {

using kernels::cpu::GumbelDraw;
using kernels::cpu::LogSumExp;
using kernels::cpu::TokenScore;

// Logits of the ids that this rank holds, in the device's memory.
using RowOfLogits = std::span<const float>;

struct LogitQuestion {
  RowOfLogits logits;
  float temperature = 1;                      // > 0: of Gumbel scores and of scaled_log_sum_exp
  std::optional<GumbelDraw> draw = {};        // the best Gumbel score is asked for; else the best logit
  bool wants_log_sum_exp = false;             // of the logits as they are
  bool wants_scaled_log_sum_exp = false;      // of logits / temperature
  std::int32_t num_candidates = 0;            // this many of the greatest logits
  std::optional<std::int32_t> token_id = {};  // whose logit is asked for
};

// Neutral (see kernels/sampling.h) where nothing was asked, or the part is empty. Candidates travel beside it.
struct LogitAnswer {
  TokenScore best;                                              // score: logit, or Gumbel score
  float best_logit = -std::numeric_limits<float>::infinity();   // of `best`
  float token_logit = -std::numeric_limits<float>::infinity();  // of the question's token_id
  bool are_numbers = true;                                      // see kernels/sampling.h, AreNumbers
  LogSumExp log_sum_exp;
  LogSumExp scaled_log_sum_exp;
};

// Of two parts of the vocabulary together. Parts must be joined in the order of their ids for the same bits everywhere.
LogitAnswer JoinAnswers(const LogitAnswer& a, const LogitAnswer& b);

// How many tokens of a row precede this one?
struct RankQuestion {
  RowOfLogits logits;
  TokenScore token;  // score: its logit, on every rank
};

}  // namespace trireme::worker
