// Memory that starts on a cache line.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <memory>

namespace trireme::kernels::cpu {

// Owns uninitialised memory, aligned to 64 bytes; large buffers lie on huge pages where the kernel has any,
// since weights are streamed through once a step. Aborts where there is no memory.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t size_bytes);

  template <typename T>
  T* As() const {
    return reinterpret_cast<T*>(data_.get());
  }
  std::size_t size_bytes() const { return size_bytes_; }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte[], Free> data_;
  std::size_t size_bytes_ = 0;
};

}  // namespace trireme::kernels::cpu
