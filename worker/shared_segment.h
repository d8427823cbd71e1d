// Memory shared by the processes of one host, by way of a descriptor.
//
// A memfd and not a file in /dev/shm: its size is not bound by the mount's (which raises SIGBUS when it is
// full), and nothing is left behind whoever is killed.
#pragma once
#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"

namespace trireme::worker {

class SharedSegment {
 public:
  // Maps `bytes` (> 0) of `fd`, which gets that size if it is empty; zeros at first.
  // InvalidArgument: it has another size. Else what the system said.
  static absl::StatusOr<std::unique_ptr<SharedSegment>> Map(int fd, std::size_t bytes);

  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  std::byte* data() const { return data_; }  // page-aligned

 private:
  SharedSegment(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}

  std::byte* const data_;
  const std::size_t bytes_;
};

}  // namespace trireme::worker
