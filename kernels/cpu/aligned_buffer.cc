#include "kernels/cpu/aligned_buffer.h"

#include <sys/mman.h>

#include "base/check.h"

namespace trireme::kernels::cpu {

AlignedBuffer::AlignedBuffer(std::size_t size_bytes) : size_bytes_(size_bytes) {
  constexpr std::size_t kCacheLine = 64, kHugePage = std::size_t{2} << 20;
  const std::size_t alignment = size_bytes >= kHugePage ? kHugePage : kCacheLine;
  const std::size_t rounded = (size_bytes + kCacheLine) / kCacheLine * kCacheLine;  // never 0
  void* memory = nullptr;
  CHECK_EQ(posix_memalign(&memory, alignment, rounded), 0) << " for " << rounded << " bytes";
  if (alignment == kHugePage) madvise(memory, rounded, MADV_HUGEPAGE);  // a hint: no matter if refused
  data_.reset(static_cast<std::byte*>(memory));
}

}  // namespace trireme::kernels::cpu
