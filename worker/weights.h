// This rank's part of the weights, as the device holds them.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/tensor.h"
#include "sharding/checkpoint/checkpoint.h"
#include "sharding/checkpoint/dtype.h"
#include "sharding/program/compiled_program.h"
#include "worker/executor.h"
#include "worker/ops.h"

namespace trireme::worker {

// How kernels name it. REQUIRES: kF32 or kBF16.
kernels::ElementType ElementTypeOf(sharding::DType dtype);

// How ops use a parameter; it may be used in several ways (a tied head).
struct ParameterUse {
  bool as_table = false;   // by LocalEmbed
  bool as_weight = false;  // by LocalLinear
  bool as_vector = false;  // norm weights and biases, always held in float32
};

// By LocalParameterId.
std::vector<ParameterUse> UsesOf(const sharding::CompiledProgram& program);

// Immutable once loaded.
class Weights {
 public:
  // Reads the slices of each parameter, once, and hands them to `ops`; at any time one parameter's slices at most are
  // held besides what the device has. `dtype` is kF32 or kBF16. Errors are those of Checkpoint::Read.
  static absl::StatusOr<Weights> Load(const sharding::CompiledProgram& program, const sharding::Checkpoint& checkpoint,
                                      sharding::DType dtype, Ops& ops, LoadProgress& progress);

  // REQUIRES: the program uses the parameter so.
  const DeviceTensor& table(sharding::LocalParameterId id) const { return *tables_[id]; }
  const DeviceTensor& weight(sharding::LocalParameterId id) const { return *weights_[id]; }
  const DeviceTensor& vector(sharding::LocalParameterId id) const { return *vectors_[id]; }

  std::uint64_t size_bytes() const { return size_bytes_; }  // as held

 private:
  void Keep(sharding::LocalParameterId id, const ParameterUse& use, HostTensor tensor, Ops& ops);

  // By LocalParameterId; null where the program has no such use.
  std::vector<std::unique_ptr<DeviceTensor>> tables_;
  std::vector<std::unique_ptr<DeviceTensor>> weights_;
  std::vector<std::unique_ptr<DeviceTensor>> vectors_;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace trireme::worker
