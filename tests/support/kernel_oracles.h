// The slow, obvious version of each kernel: one loop per formula, in double, no blocking and no vectors. What
// tests of kernels compare with.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention.h"
#include "kernels/sampling.h"
#include "kernels/tensor.h"

namespace trireme::kernels::oracle {

// `count` values of a normal distribution; equal for equal seeds.
std::vector<float> RandomFloats(std::int64_t count, unsigned seed, float deviation = 1.0f);

// Each rounded to bfloat16.
std::vector<Bfloat16> Bfloat16Of(std::span<const float> values);
std::vector<float> FloatsOf(std::span<const Bfloat16> values);

// A sum of products and the sum of their magnitudes, which bounds the error of any order of summation.
struct BoundedSum {
  double value = 0;
  double magnitude = 0;
};

// [rows, n]: x[rows, k] · weight[n, k]ᵀ + bias (empty for none).
std::vector<BoundedSum> Product(std::span<const float> x, std::span<const float> weight, std::span<const float> bias,
                                std::int64_t rows, std::int64_t n, std::int64_t k);

std::vector<double> RmsNorm(std::span<const float> x, std::span<const float> weight, RowsByDim shape, double epsilon);

// x is [rows, num_heads, head_dim].
std::vector<double> Rope(std::span<const float> x, std::span<const std::int32_t> positions,
                         std::span<const float> inverse_frequencies, std::int64_t num_heads, std::int64_t head_dim);

double Silu(double v);

// Causal attention of one sequence over its whole history: q is [queries, num_heads, head_dim], keys and
// values are [context + queries, num_kv_heads, head_dim]; the queries are the last of the sequence.
struct AttentionShape {
  std::int64_t num_heads;
  std::int64_t num_kv_heads;
  std::int64_t head_dim;
  double scale;
};
std::vector<double> Attention(std::span<const float> q, std::span<const float> keys, std::span<const float> values,
                              const AttentionShape& shape);

double LogSumExp(std::span<const float> logits, double temperature);

// Indices by (logit descending, index ascending), NaNs left out.
std::vector<std::int32_t> Ranked(std::span<const float> logits);

// The Gumbel noise of an id, from the definition in kernels/sampling.h.
double Gumbel(std::int32_t id, const cpu::GumbelDraw& draw);

}  // namespace trireme::kernels::oracle
