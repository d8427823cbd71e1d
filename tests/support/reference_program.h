// Interprets programs: the oracle for the layout compiler, the worker's runner and the kernels. Slow and obvious.
#pragma once
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sharding/program/compiled_program.h"
#include "sharding/program/program.h"
#include "tests/support/reference_math.h"

namespace trireme::testing {

// Full tensors, by name; a vector is a matrix of one row.
using TensorMap = std::map<std::string, Matrix>;

// One sequence from position 0, and the positions whose logits are asked for.
struct Prompt {
  std::vector<int> tokens;
  std::vector<int> sampled;
};

// Random tensors for all parameters: weights of standard deviation 1/sqrt(in), biases and norm weights far
// from 0 and from 1, so that a wrong or missing one shows.
TensorMap RandomTensors(const sharding::Program& program, unsigned seed);

// All positions of a prompt.
Prompt AllPositions(std::vector<int> tokens);

// Logits [sampled, vocabulary] of the program on full shapes.
Matrix RunProgram(const sharding::Program& program, const TensorMap& tensors, const Prompt& prompt);

// A rank's part of a parameter.
using ReadParameter = std::function<Matrix(const sharding::LocalParameter&)>;
ReadParameter PartsOf(const TensorMap& tensors);  // `tensors` must outlive the result

// The same from the programs of all ranks, which run in lock-step in this thread; each rank sees only its
// slices of the tensors and keeps its values in an arena as the compiler planned it. Logits are put together
// from the ranks'. CHECKs what must hold for every compiled program: equal ops in equal order, replicated
// values equal bit by bit.
Matrix RunRanks(std::span<const sharding::CompiledProgram> ranks, const ReadParameter& read, const Prompt& prompt);

// The largest |a − b|; infinite for NaN and where shapes differ.
double LargestDifference(const Matrix& a, const Matrix& b);

}  // namespace trireme::testing
