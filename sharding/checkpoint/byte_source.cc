#include "sharding/checkpoint/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace trireme::sharding {
namespace {

absl::Status CheckRange(const ByteSource& source, std::int64_t offset, std::size_t length) {
  if (offset >= 0 && offset <= source.size() && length <= static_cast<std::size_t>(source.size() - offset)) {
    return absl::OkStatus();
  }
  return absl::OutOfRangeError(absl::StrCat(source.name(), ": bytes [", offset, ", ", offset, " + ", length,
                                            ") do not lie within its ", source.size(), " bytes"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileBytes>> FileBytes::Open(const std::filesystem::path& path) {
  // Without O_NONBLOCK opening a FIFO would wait for a writer.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path.string()));
  struct stat info = {};
  const int failed = fstat(descriptor, &info);
  const int error = errno;
  std::unique_ptr<FileBytes> file(new FileBytes(path.string(), descriptor, info.st_size));
  if (failed != 0) return absl::ErrnoToStatus(error, absl::StrCat("cannot stat ", path.string()));
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path.string(), " is not a regular file"));
  }
  return file;
}

FileBytes::~FileBytes() { close(descriptor_); }

absl::Status FileBytes::ReadAt(std::int64_t offset, std::span<std::byte> out) const {
  if (absl::Status status = CheckRange(*this, offset, out.size()); !status.ok()) return status;
  bytes_read_.fetch_add(static_cast<std::int64_t>(out.size()), std::memory_order_relaxed);
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got =
        pread(descriptor_, out.data() + done, out.size() - done, offset + static_cast<std::int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", name_));
    if (got == 0) {
      return absl::OutOfRangeError(absl::StrCat(name_, " has shrunk: it had ", size_, " bytes when it was opened and ",
                                                "now ends at ", offset + static_cast<std::int64_t>(done)));
    }
    done += static_cast<std::size_t>(got);
  }
  return absl::OkStatus();
}

absl::Status MemoryBytes::ReadAt(std::int64_t offset, std::span<std::byte> out) const {
  if (absl::Status status = CheckRange(*this, offset, out.size()); !status.ok()) return status;
  if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
  return absl::OkStatus();
}

}  // namespace trireme::sharding
