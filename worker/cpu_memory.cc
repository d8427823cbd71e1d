#include "worker/cpu_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace trireme::worker {
namespace {

class CpuMemory : public DeviceMemory {
 public:
  CpuMemory(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  ~CpuMemory() override {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  CpuMemory(const CpuMemory&) = delete;
  CpuMemory& operator=(const CpuMemory&) = delete;

  std::byte* data() const override { return data_; }

 private:
  std::byte* const data_;
  const std::size_t bytes_;
};

void TouchPages(std::byte* data, std::size_t bytes, kernels::cpu::ThreadPool& pool) {
  constexpr std::size_t kPage = 4096;
  const auto num_pages = static_cast<std::int64_t>((bytes + kPage - 1) / kPage);
  pool.ParallelFor(num_pages, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t page = begin; page < end; ++page) data[page * kPage] = std::byte{0};
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocateCpuMemory(std::size_t bytes, kernels::cpu::ThreadPool& pool) {
  if (bytes == 0) return std::make_unique<CpuMemory>(nullptr, 0);
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes: ", std::strerror(errno)));
  }
  // A hint: a kernel without huge pages refuses it, and nothing is lost.
  (void)madvise(data, bytes, MADV_HUGEPAGE);
  TouchPages(static_cast<std::byte*>(data), bytes, pool);
  return std::make_unique<CpuMemory>(static_cast<std::byte*>(data), bytes);
}

}  // namespace trireme::worker
