// A folder of ours for the control socket, which nobody else may enter, and which goes with us.
//
// A server that is killed cannot remove its folder. So each server holds a lock (flock) on its folder, which the kernel
// takes off when the process ends, however it ends; the next server removes folders that nobody has locked. The lock is
// on the folder itself, as systemd-tmpfiles wants it, so that it does not age the folder of a server that runs for long.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace trireme::server {

// Move-only. Any number of processes and threads may make, remove and look for folders at the same time.
class PrivateDirectory {
 public:
  // Makes a folder of mode 0700 under $XDG_RUNTIME_DIR, or under /tmp where that is unset, not writable, or so long
  // that `longest_name` in it would not fit the 107 bytes of a Unix socket's address.
  static absl::StatusOr<PrivateDirectory> Make(std::size_t longest_name);

  // Removes what Make has left in both places when its process was killed: folders with our name, owner and mode that
  // nobody has locked, and the files in them. Symbolic links are not followed; a folder that holds a folder stays, with
  // a warning.
  static void RemoveAbandoned();

  PrivateDirectory(PrivateDirectory&& other) noexcept;
  PrivateDirectory& operator=(PrivateDirectory&&) = delete;
  // Removes the folder and the files in it.
  ~PrivateDirectory();

  const std::filesystem::path& path() const { return path_; }

 private:
  static absl::StatusOr<PrivateDirectory> MakeIn(const std::string& parent, std::size_t longest_name);

  PrivateDirectory(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::filesystem::path path_;
  int descriptor_;  // holds the lock; -1 if moved from
};

}  // namespace trireme::server
