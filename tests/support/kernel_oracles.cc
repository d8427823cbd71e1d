#include "tests/support/kernel_oracles.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "kernels/philox.h"

namespace trireme::kernels::oracle {
namespace {

std::size_t Index(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

std::vector<float> RandomFloats(std::int64_t count, unsigned seed, float deviation) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> out(Index(count));
  for (float& v : out) v = normal(generator);
  return out;
}

std::vector<Bfloat16> Bfloat16Of(std::span<const float> values) {
  std::vector<Bfloat16> out;
  for (const float v : values) out.push_back(ToBfloat16(v));
  return out;
}

std::vector<float> FloatsOf(std::span<const Bfloat16> values) {
  std::vector<float> out;
  for (const Bfloat16 v : values) out.push_back(ToFloat(v));
  return out;
}

std::vector<BoundedSum> Product(std::span<const float> x, std::span<const float> weight, std::span<const float> bias,
                                std::int64_t rows, std::int64_t n, std::int64_t k) {
  std::vector<BoundedSum> out;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < n; ++j) {
      BoundedSum sum;
      for (std::int64_t i = 0; i < k; ++i) {
        const double term = double{x[Index(r * k + i)]} * double{weight[Index(j * k + i)]};
        sum.value += term;
        sum.magnitude += std::abs(term);
      }
      if (!bias.empty()) {
        sum.value += double{bias[Index(j)]};
        sum.magnitude += std::abs(double{bias[Index(j)]});
      }
      out.push_back(sum);
    }
  }
  return out;
}

std::vector<double> RmsNorm(std::span<const float> x, std::span<const float> weight, RowsByDim shape, double epsilon) {
  std::vector<double> out;
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const auto row = x.subspan(Index(r * shape.dim), Index(shape.dim));
    double squares = 0;
    for (const double v : row) squares += v * v;
    const double root = std::sqrt(squares / static_cast<double>(shape.dim) + epsilon);
    for (std::size_t i = 0; i < row.size(); ++i) out.push_back(double{row[i]} / root * double{weight[i]});
  }
  return out;
}

std::vector<double> Rope(std::span<const float> x, std::span<const std::int32_t> positions,
                         std::span<const float> inverse_frequencies, std::int64_t num_heads, std::int64_t head_dim) {
  std::vector<double> out(x.begin(), x.end());
  const std::size_t half = inverse_frequencies.size();
  for (std::size_t head = 0; head < positions.size() * Index(num_heads); ++head) {
    const std::size_t begin = head * Index(head_dim);
    for (std::size_t i = 0; i < half; ++i) {
      // The angle is float32 by contract.
      const double angle = static_cast<float>(positions[head / Index(num_heads)]) * inverse_frequencies[i];
      const double a = x[begin + i], b = x[begin + half + i];
      out[begin + i] = a * std::cos(angle) - b * std::sin(angle);
      out[begin + half + i] = b * std::cos(angle) + a * std::sin(angle);
    }
  }
  return out;
}

double Silu(double v) { return v / (1 + std::exp(-v)); }

std::vector<double> Attention(std::span<const float> q, std::span<const float> keys, std::span<const float> values,
                              const AttentionShape& shape) {
  const std::int64_t queries = std::ssize(q) / (shape.num_heads * shape.head_dim);
  const std::int64_t tokens = std::ssize(keys) / (shape.num_kv_heads * shape.head_dim);
  std::vector<double> out;
  for (std::int64_t query = 0; query < queries; ++query) {
    const std::int64_t seen = tokens - queries + query + 1;
    for (std::int64_t h = 0; h < shape.num_heads; ++h) {
      const std::int64_t kv_head = h / (shape.num_heads / shape.num_kv_heads);
      const auto at = [&](std::int64_t token) { return (token * shape.num_kv_heads + kv_head) * shape.head_dim; };
      std::vector<double> weights;
      for (std::int64_t j = 0; j < seen; ++j) {
        double dot = 0;
        for (std::int64_t d = 0; d < shape.head_dim; ++d) {
          dot += double{q[Index((query * shape.num_heads + h) * shape.head_dim + d)]} * double{keys[Index(at(j) + d)]};
        }
        weights.push_back(dot * shape.scale);
      }
      const double max = *std::max_element(weights.begin(), weights.end());
      for (double& w : weights) w = std::exp(w - max);
      const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
      for (std::int64_t d = 0; d < shape.head_dim; ++d) {
        double value = 0;
        for (std::int64_t j = 0; j < seen; ++j) value += weights[Index(j)] * double{values[Index(at(j) + d)]};
        out.push_back(value / sum);
      }
    }
  }
  return out;
}

double LogSumExp(std::span<const float> logits, double temperature) {
  double sum = 0;
  for (const double v : logits) sum += std::exp(v / temperature);
  return std::log(sum);
}

std::vector<std::int32_t> Ranked(std::span<const float> logits) {
  std::vector<std::int32_t> order;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!std::isnan(logits[i])) order.push_back(static_cast<std::int32_t>(i));
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return logits[Index(a)] > logits[Index(b)]; });
  return order;
}

double Gumbel(std::int32_t id, const cpu::GumbelDraw& draw) {
  const auto words =
      Philox4x32({static_cast<std::uint32_t>(id / 4), draw.position, draw.sample, 0},
                 {static_cast<std::uint32_t>(draw.seed & 0xffffffff), static_cast<std::uint32_t>(draw.seed >> 32)});
  const double u = (static_cast<double>(words[Index(id % 4)] >> 8) + 0.5) / 16777216.0;
  return -std::log(-std::log(u));
}

}  // namespace trireme::kernels::oracle
