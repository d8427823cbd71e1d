#include "sharding/program/compiled_program.h"

namespace trireme::sharding {

std::vector<std::int64_t> LocalParameter::local_shape() const {
  std::vector<std::int64_t> shape;
  for (const Intervals& intervals : slices) shape.push_back(TotalSize(intervals));
  return shape;
}

std::int64_t LocalParameter::num_elements() const {
  std::int64_t product = 1;
  for (const Intervals& intervals : slices) product *= TotalSize(intervals);
  return product;
}

bool IsCollective(const LocalOpKind& kind) {
  return std::holds_alternative<AllReduce>(kind) || std::holds_alternative<AllGather>(kind) ||
         std::holds_alternative<ReduceScatter>(kind);
}

}  // namespace trireme::sharding
