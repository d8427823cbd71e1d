#include "worker/weights.h"

#include <utility>

#include "base/check.h"
#include "base/status_macros.h"

namespace trireme::worker {
namespace {

using sharding::DType;
using sharding::LocalParameter;

void Add(sharding::UsedAs as, ParameterUse& use) {
  switch (as) {
    case sharding::UsedAs::kTable:
      use.as_table = true;
      return;
    case sharding::UsedAs::kWeight:
      use.as_weight = true;
      return;
    case sharding::UsedAs::kVector:
      use.as_vector = true;
      return;
  }
}

DType TypeHeld(const ParameterUse& use, DType dtype) { return use.as_vector ? DType::kF32 : dtype; }

std::uint64_t BytesOf(const LocalParameter& parameter, DType dtype) {
  return parameter.num_elements() * kernels::ElementBytes(ElementTypeOf(dtype));
}

// A vector becomes a single row.
HostTensor EmptyTensor(const LocalParameter& parameter, DType dtype) {
  const std::vector<std::int64_t> shape = parameter.local_shape();
  CHECK(shape.size() == 1 || shape.size() == 2) << parameter.name << " has " << shape.size() << " dimensions";
  return {.memory = kernels::cpu::AlignedBuffer(BytesOf(parameter, dtype)),
          .type = ElementTypeOf(dtype),
          .rows = shape.size() == 2 ? shape[0] : 1,
          .columns = shape.back()};
}

absl::StatusOr<HostTensor> ReadSlices(const LocalParameter& parameter, const sharding::Checkpoint& checkpoint,
                                      DType dtype) {
  HostTensor tensor = EmptyTensor(parameter, dtype);
  if (parameter.num_elements() > 0) {
    RETURN_IF_ERROR(checkpoint.Read(parameter.name, parameter.slices, dtype, tensor.memory.As<void>()));
  }
  return tensor;
}

}  // namespace

kernels::ElementType ElementTypeOf(DType dtype) {
  CHECK(dtype == DType::kF32 || dtype == DType::kBF16);
  return dtype == DType::kF32 ? kernels::ElementType::kFloat32 : kernels::ElementType::kBfloat16;
}

std::vector<ParameterUse> UsesOf(const sharding::CompiledProgram& program) {
  std::vector<ParameterUse> uses(program.parameters.size());
  for (const sharding::LocalOp& op : program.ops) {
    for (const sharding::UsedParameter& used : sharding::ParametersOf(op.kind)) Add(used.as, uses[used.id]);
  }
  return uses;
}

absl::StatusOr<Weights> Weights::Load(const sharding::CompiledProgram& program, const sharding::Checkpoint& checkpoint,
                                      DType dtype, Ops& ops, LoadProgress& progress) {
  const std::vector<ParameterUse> uses = UsesOf(program);
  std::uint64_t total_bytes = 0;
  for (std::size_t id = 0; id < uses.size(); ++id) {
    total_bytes += BytesOf(program.parameters[id], TypeHeld(uses[id], dtype));
  }
  progress.total_bytes = total_bytes;

  Weights weights;
  weights.tables_.resize(uses.size());
  weights.weights_.resize(uses.size());
  weights.vectors_.resize(uses.size());
  for (std::size_t id = 0; id < uses.size(); ++id) {
    const DType held = TypeHeld(uses[id], dtype);
    ASSIGN_OR_RETURN(HostTensor tensor, ReadSlices(program.parameters[id], checkpoint, held));
    weights.Keep(static_cast<int>(id), uses[id], std::move(tensor), ops);
    progress.loaded_bytes += BytesOf(program.parameters[id], held);
  }
  return weights;
}

void Weights::Keep(sharding::LocalParameterId id, const ParameterUse& use, HostTensor tensor, Ops& ops) {
  CHECK(!(use.as_vector && (use.as_table || use.as_weight))) << "parameter " << id;
  if (use.as_weight) {
    weights_[id] = ops.Pack(tensor);
    size_bytes_ += weights_[id]->size_bytes();
  }
  if (!use.as_table && !use.as_vector) return;
  std::unique_ptr<DeviceTensor>& kept = use.as_table ? tables_[id] : vectors_[id];
  kept = ops.Hold(std::move(tensor));
  size_bytes_ += kept->size_bytes();
}

}  // namespace trireme::worker
