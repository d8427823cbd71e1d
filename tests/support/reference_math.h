// The slow, obvious versions of the ops of a program: plain loops over row-major matrices, sums in double.
// Shapes may be full or local; nothing here knows of ranks.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "sharding/program/program.h"

namespace trireme::testing {

struct Matrix {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<float> data;

  Matrix() = default;
  Matrix(std::int64_t num_rows, std::int64_t num_cols) : rows(num_rows), cols(num_cols), data(num_rows * num_cols) {}

  float& at(std::int64_t r, std::int64_t c) { return data[r * cols + c]; }
  float at(std::int64_t r, std::int64_t c) const { return data[r * cols + c]; }
};

// Rows of `table`, which holds the ids of `held` only; zeros for other ids.
Matrix Embed(const Matrix& table, sharding::Interval held, std::span<const int> tokens);

// x · weightᵀ + bias; no bias if empty.
Matrix Linear(const Matrix& x, const Matrix& weight, std::span<const float> bias);

Matrix RmsNorm(const Matrix& x, std::span<const float> weight, float epsilon);

// Row r is at position r.
Matrix Rope(const Matrix& x, const sharding::RopeTable& table, int head_dim);

struct AttentionShape {
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  float scale = 1;
};
// Causal; all rows are one sequence from position 0.
Matrix Attention(const Matrix& q, const Matrix& k, const Matrix& v, const AttentionShape& shape);

Matrix GatedActivation(const Matrix& gate, const Matrix& up, sharding::Activation activation);
Matrix Add(const Matrix& a, const Matrix& b);
Matrix AddBias(const Matrix& x, std::span<const float> bias);
Matrix Scale(const Matrix& x, float factor);
Matrix SelectRows(const Matrix& x, std::span<const int> rows);
// Columns in `part`, in order.
Matrix SliceColumns(const Matrix& x, const sharding::Intervals& part);
// The inverse: puts the columns of `piece` to the places in `part`.
void PlaceColumns(const Matrix& piece, const sharding::Intervals& part, Matrix& whole);

}  // namespace trireme::testing
