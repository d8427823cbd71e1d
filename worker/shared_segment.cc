#include "worker/shared_segment.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace trireme::worker {
namespace {

absl::Status SystemError(const char* call, int fd) {
  return absl::ErrnoToStatus(errno, absl::StrCat(call, " of the shared memory (descriptor ", fd, ")"));
}

absl::StatusOr<std::size_t> SizeOf(int fd) {
  struct stat info;
  if (fstat(fd, &info) != 0) return SystemError("fstat", fd);
  return static_cast<std::size_t>(info.st_size);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SharedSegment>> SharedSegment::Map(int fd, std::size_t bytes) {
  ASSIGN_OR_RETURN(std::size_t size, SizeOf(fd));
  if (size == 0) {
    if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) return SystemError("ftruncate", fd);
    ASSIGN_OR_RETURN(size, SizeOf(fd));
  }
  if (size != bytes) {
    return absl::InvalidArgumentError(absl::StrCat("the shared memory (descriptor ", fd, ") has ", size,
                                                   " bytes, but this rank wants ", bytes,
                                                   ": ranks must agree on their number and on the chunk size"));
  }
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return SystemError("mmap", fd);
  return absl::WrapUnique(new SharedSegment(static_cast<std::byte*>(data), bytes));
}

SharedSegment::~SharedSegment() { munmap(data_, bytes_); }

}  // namespace trireme::worker
