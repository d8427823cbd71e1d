#include "sharding/checkpoint/gguf_cursor.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"

static_assert(std::endian::native == std::endian::little, "numbers are copied as they are");

namespace trireme::sharding {
namespace {

constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 30;

}  // namespace

absl::Status GgufCursor::Malformed(std::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(file_.name(), ": ", std::string(what)));
}

absl::Status GgufCursor::FillWindow() {
  window_.resize(static_cast<std::size_t>(std::min(kWindowBytes, bytes_left())));
  window_begin_ = position_;
  return file_.ReadAt(position_, window_);
}

absl::Status GgufCursor::ReadBytes(std::span<std::byte> out, const char* what) {
  if (out.size() > static_cast<std::size_t>(bytes_left())) {
    return Malformed(absl::StrCat("the file ends within ", what, ": ", out.size(), " bytes needed at ", position_, ", ",
                                  bytes_left(), " left"));
  }
  while (!out.empty()) {
    const auto used = static_cast<std::size_t>(position_ - window_begin_);
    if (used >= window_.size()) {
      RETURN_IF_ERROR(FillWindow());
      continue;
    }
    const std::size_t count = std::min(out.size(), window_.size() - used);
    std::memcpy(out.data(), window_.data() + used, count);
    position_ += static_cast<std::int64_t>(count);
    out = out.subspan(count);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::int64_t> GgufCursor::ReadCount(std::int64_t min_bytes, const char* what) {
  ASSIGN_OR_RETURN(const std::uint64_t count, ReadNumber<std::uint64_t>(what));
  const auto most = std::min(kMaxCount, static_cast<std::uint64_t>(bytes_left() / min_bytes));
  if (count <= most) return static_cast<std::int64_t>(count);
  return Malformed(absl::StrCat(what, " is ", count, " at byte ", position_ - 8, ", the ", bytes_left(),
                                " bytes that are left allow at most ", most));
}

absl::StatusOr<std::string> GgufCursor::ReadString(const char* what) {
  ASSIGN_OR_RETURN(const std::int64_t length, ReadCount(1, what));
  std::string text(static_cast<std::size_t>(length), '\0');
  RETURN_IF_ERROR(ReadBytes(std::as_writable_bytes(std::span(text)), what));
  return text;
}

}  // namespace trireme::sharding
