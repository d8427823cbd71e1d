#include "tests/support/reference_math.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace trireme::testing {
namespace {

// Probabilities of keys 0…r for one query head.
std::vector<double> AttentionWeights(const Matrix& q, const Matrix& k, std::int64_t r, int q_begin, int k_begin,
                                     const AttentionShape& shape) {
  std::vector<double> weights(r + 1);
  double largest = -std::numeric_limits<double>::infinity();
  for (std::int64_t j = 0; j <= r; ++j) {
    double dot = 0;
    for (int d = 0; d < shape.head_dim; ++d) dot += double{q.at(r, q_begin + d)} * k.at(j, k_begin + d);
    weights[j] = dot * shape.scale;
    largest = std::max(largest, weights[j]);
  }
  double total = 0;
  for (double& weight : weights) total += weight = std::exp(weight - largest);
  for (double& weight : weights) weight /= total;
  return weights;
}

}  // namespace

Matrix Embed(const Matrix& table, sharding::Interval held, std::span<const int> tokens) {
  Matrix out(static_cast<std::int64_t>(tokens.size()), table.cols);
  for (std::int64_t r = 0; r < out.rows; ++r) {
    if (tokens[r] < held.begin || tokens[r] >= held.end) continue;
    for (std::int64_t c = 0; c < out.cols; ++c) out.at(r, c) = table.at(tokens[r] - held.begin, c);
  }
  return out;
}

Matrix Linear(const Matrix& x, const Matrix& weight, std::span<const float> bias) {
  CHECK_EQ(x.cols, weight.cols);
  CHECK(bias.empty() || static_cast<std::int64_t>(bias.size()) == weight.rows) << bias.size();
  Matrix out(x.rows, weight.rows);
  for (std::int64_t r = 0; r < out.rows; ++r) {
    for (std::int64_t o = 0; o < out.cols; ++o) {
      double sum = bias.empty() ? 0.0 : bias[o];
      for (std::int64_t i = 0; i < x.cols; ++i) sum += double{x.at(r, i)} * weight.at(o, i);
      out.at(r, o) = static_cast<float>(sum);
    }
  }
  return out;
}

Matrix RmsNorm(const Matrix& x, std::span<const float> weight, float epsilon) {
  CHECK_EQ(x.cols, static_cast<std::int64_t>(weight.size()));
  Matrix out(x.rows, x.cols);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    double squares = 0;
    for (std::int64_t c = 0; c < x.cols; ++c) squares += double{x.at(r, c)} * x.at(r, c);
    const double factor = 1 / std::sqrt(squares / static_cast<double>(x.cols) + epsilon);
    for (std::int64_t c = 0; c < x.cols; ++c) out.at(r, c) = static_cast<float>(x.at(r, c) * factor * weight[c]);
  }
  return out;
}

Matrix Rope(const Matrix& x, const sharding::RopeTable& table, int head_dim) {
  CHECK_EQ(x.cols % head_dim, 0);
  const int half = static_cast<int>(table.inv_freq.size());
  Matrix out = x;
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (std::int64_t head = 0; head < x.cols; head += head_dim) {
      for (int i = 0; i < half; ++i) {
        const float angle = static_cast<float>(r) * table.inv_freq[i];
        const double cosine = std::cos(double{angle}) * table.scale;
        const double sine = std::sin(double{angle}) * table.scale;
        const double a = x.at(r, head + i), b = x.at(r, head + i + half);
        out.at(r, head + i) = static_cast<float>(a * cosine - b * sine);
        out.at(r, head + i + half) = static_cast<float>(b * cosine + a * sine);
      }
    }
  }
  return out;
}

Matrix Attention(const Matrix& q, const Matrix& k, const Matrix& v, const AttentionShape& shape) {
  CHECK_EQ(q.cols, std::int64_t{shape.num_heads} * shape.head_dim);
  CHECK_EQ(k.cols, std::int64_t{shape.num_kv_heads} * shape.head_dim);
  CHECK_EQ(v.cols, k.cols);
  Matrix out(q.rows, q.cols);
  for (std::int64_t r = 0; r < q.rows; ++r) {
    for (int head = 0; head < shape.num_heads; ++head) {
      const int q_begin = head * shape.head_dim;
      const int kv_begin = head / (shape.num_heads / shape.num_kv_heads) * shape.head_dim;
      const std::vector<double> weights = AttentionWeights(q, k, r, q_begin, kv_begin, shape);
      for (int d = 0; d < shape.head_dim; ++d) {
        double sum = 0;
        for (std::int64_t j = 0; j <= r; ++j) sum += weights[j] * v.at(j, kv_begin + d);
        out.at(r, q_begin + d) = static_cast<float>(sum);
      }
    }
  }
  return out;
}

Matrix GatedActivation(const Matrix& gate, const Matrix& up, sharding::Activation activation) {
  CHECK(activation == sharding::Activation::kSilu);
  CHECK_EQ(gate.data.size(), up.data.size());
  Matrix out = gate;
  for (std::size_t i = 0; i < out.data.size(); ++i) {
    const double g = gate.data[i];
    out.data[i] = static_cast<float>(g / (1 + std::exp(-g)) * up.data[i]);
  }
  return out;
}

Matrix Add(const Matrix& a, const Matrix& b) {
  CHECK_EQ(a.data.size(), b.data.size());
  Matrix out = a;
  for (std::size_t i = 0; i < out.data.size(); ++i) out.data[i] += b.data[i];
  return out;
}

Matrix AddBias(const Matrix& x, std::span<const float> bias) {
  CHECK_EQ(x.cols, static_cast<std::int64_t>(bias.size()));
  Matrix out = x;
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (std::int64_t c = 0; c < x.cols; ++c) out.at(r, c) += bias[c];
  }
  return out;
}

Matrix Scale(const Matrix& x, float factor) {
  Matrix out = x;
  for (float& value : out.data) value *= factor;
  return out;
}

Matrix SelectRows(const Matrix& x, std::span<const int> rows) {
  Matrix out(static_cast<std::int64_t>(rows.size()), x.cols);
  for (std::int64_t r = 0; r < out.rows; ++r) {
    for (std::int64_t c = 0; c < x.cols; ++c) out.at(r, c) = x.at(rows[r], c);
  }
  return out;
}

Matrix SliceColumns(const Matrix& x, const sharding::Intervals& part) {
  Matrix out(x.rows, sharding::TotalSize(part));
  for (std::int64_t r = 0; r < x.rows; ++r) {
    std::int64_t local = 0;
    for (const sharding::Interval& interval : part) {
      for (std::int64_t c = interval.begin; c < interval.end; ++c) out.at(r, local++) = x.at(r, c);
    }
  }
  return out;
}

void PlaceColumns(const Matrix& piece, const sharding::Intervals& part, Matrix& whole) {
  CHECK_EQ(piece.cols, sharding::TotalSize(part));
  for (std::int64_t r = 0; r < piece.rows; ++r) {
    std::int64_t local = 0;
    for (const sharding::Interval& interval : part) {
      for (std::int64_t c = interval.begin; c < interval.end; ++c) whole.at(r, c) = piece.at(r, local++);
    }
  }
}

}  // namespace trireme::testing
