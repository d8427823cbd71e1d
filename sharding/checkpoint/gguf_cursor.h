// Reads the little-endian fields of a GGUF header one after another.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "sharding/checkpoint/byte_source.h"

namespace trireme::sharding {

// A GGUF file does not say how long its header is, so it is read in pieces of `kWindowBytes`: at most so much
// of the data section is read with it. Not thread-safe.
class GgufCursor {
 public:
  static constexpr std::int64_t kWindowBytes = 65536;

  explicit GgufCursor(const ByteSource& file) : file_(file) {}

  const std::string& file_name() const { return file_.name(); }
  std::int64_t position() const { return position_; }
  std::int64_t bytes_left() const { return file_.size() - position_; }

  // InvalidArgument, with `what` and the position, if the file ends before.
  absl::Status ReadBytes(std::span<std::byte> out, const char* what);

  template <typename T>
  absl::StatusOr<T> ReadNumber(const char* what) {
    T value{};
    RETURN_IF_ERROR(ReadBytes(std::as_writable_bytes(std::span(&value, 1)), what));
    return value;
  }

  // A u64 length, at most 2^30 and what is left, and so many bytes.
  absl::StatusOr<std::string> ReadString(const char* what);

  // A u64 count of things of which each takes at least `min_bytes`: refused above 2^30 and above what is left.
  absl::StatusOr<std::int64_t> ReadCount(std::int64_t min_bytes, const char* what);

  // InvalidArgument with the file's name in front.
  absl::Status Malformed(std::string_view what) const;

 private:
  absl::Status FillWindow();

  const ByteSource& file_;
  std::int64_t position_ = 0;
  std::int64_t window_begin_ = 0;
  std::vector<std::byte> window_;
};

}  // namespace trireme::sharding
