// Where headers and tensors are read from: a file, or bytes in memory (tests, fuzzers).
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace trireme::sharding {

// Random access to a fixed number of bytes. Safe to use from any number of threads.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // For messages: the path.
  virtual const std::string& name() const = 0;
  virtual std::int64_t size() const = 0;

  // Fills `out` from `offset` on. OutOfRange where that does not lie within [0, size()).
  virtual absl::Status ReadAt(std::int64_t offset, std::span<std::byte> out) const = 0;
};

// A file, opened for reading. It is read by pread only, never mapped, so that what is asked for can be
// counted and a file that shrinks is an error and not a signal.
class FileBytes final : public ByteSource {
 public:
  // NotFound, PermissionDenied and so on, with the path. InvalidArgument if it is not a regular file.
  static absl::StatusOr<std::unique_ptr<FileBytes>> Open(const std::filesystem::path& path);
  ~FileBytes() override;
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  const std::string& name() const override { return name_; }
  std::int64_t size() const override { return size_; }
  absl::Status ReadAt(std::int64_t offset, std::span<std::byte> out) const override;

  // Sum of the lengths that ReadAt was asked for.
  std::int64_t bytes_read() const { return bytes_read_.load(std::memory_order_relaxed); }

 private:
  FileBytes(std::string name, int descriptor, std::int64_t size)
      : name_(std::move(name)), descriptor_(descriptor), size_(size) {}

  const std::string name_;
  const int descriptor_;
  const std::int64_t size_;
  mutable std::atomic<std::int64_t> bytes_read_ = 0;
};

// Bytes that the caller keeps alive.
class MemoryBytes final : public ByteSource {
 public:
  explicit MemoryBytes(std::span<const std::byte> bytes, std::string name = "memory")
      : bytes_(bytes), name_(std::move(name)) {}

  const std::string& name() const override { return name_; }
  std::int64_t size() const override { return static_cast<std::int64_t>(bytes_.size()); }
  absl::Status ReadAt(std::int64_t offset, std::span<std::byte> out) const override;

 private:
  const std::span<const std::byte> bytes_;
  const std::string name_;
};

}  // namespace trireme::sharding
