// A folder of ours for the control socket, which nobody else may enter, and which goes with us.
#pragma once
#include <cstddef>
#include <filesystem>

#include "absl/status/statusor.h"

namespace trireme::server {

// Move-only.
class PrivateDirectory {
 public:
  // Makes a folder of mode 0700 under $XDG_RUNTIME_DIR, or under /tmp where that is unset, not writable, or so long
  // that `longest_name` in it would not fit the 107 bytes of a Unix socket's address.
  static absl::StatusOr<PrivateDirectory> Make(std::size_t longest_name);

  PrivateDirectory(PrivateDirectory&& other) noexcept;
  PrivateDirectory& operator=(PrivateDirectory&&) = delete;
  // Removes the folder and what is in it.
  ~PrivateDirectory();

  const std::filesystem::path& path() const { return path_; }

 private:
  explicit PrivateDirectory(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
};

}  // namespace trireme::server
