#include "server/coordinator/private_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/logging.h"

namespace trireme::server {
namespace {

constexpr std::size_t kLongestSocketPath = 107;  // of sockaddr_un
// Says whose it is, for folders of this name are removed.
constexpr std::string_view kPrefix = "trireme-control-";
constexpr std::string_view kPlaceholder = "XXXXXX";  // mkdtemp's
// Another server may take a new folder for an abandoned one before it is locked; so often in a row it does not.
constexpr int kMaxAttempts = 100;

std::vector<std::string> Parents() {
  std::vector<std::string> parents;
  if (const char* runtime = getenv("XDG_RUNTIME_DIR"); runtime != nullptr && *runtime == '/') {
    parents.push_back(runtime);
  }
  parents.push_back("/tmp");
  return parents;
}

// A descriptor of the folder `name`, or -1 with errno. Not of what a symbolic link points to.
int OpenFolder(int parent, const char* name) {
  return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

bool TryLock(int folder) { return flock(folder, LOCK_EX | LOCK_NB) == 0; }

bool IsStillAt(const std::string& path, int folder) {
  struct stat named = {}, opened = {};
  return lstat(path.c_str(), &named) == 0 && fstat(folder, &opened) == 0 && named.st_ino == opened.st_ino &&
         named.st_dev == opened.st_dev;
}

std::vector<std::string> NamesIn(int folder) {
  std::vector<std::string> names;
  const int own = OpenFolder(folder, ".");  // closedir closes it
  DIR* entries = own < 0 ? nullptr : fdopendir(own);
  if (entries == nullptr) {
    if (own >= 0) close(own);
    return names;
  }
  while (const dirent* entry = readdir(entries)) {
    if (const std::string_view name(entry->d_name); name != "." && name != "..") names.emplace_back(name);
  }
  closedir(entries);
  return names;
}

// Removes `path` and the files in it; `folder` is its descriptor, locked.
void Remove(const std::string& path, int folder) {
  for (const std::string& name : NamesIn(folder)) unlinkat(folder, name.c_str(), 0);
  if (rmdir(path.c_str()) == 0 || errno == ENOENT) return;
  LogWarning("cannot remove a control socket's folder", {{"path", path}, {"error", std::strerror(errno)}});
}

// The descriptor of a new folder, locked. UNAVAILABLE if another server has taken it for an abandoned one meanwhile.
absl::StatusOr<int> LockNew(const std::string& path) {
  const int folder = OpenFolder(AT_FDCWD, path.c_str());
  if (folder >= 0 && TryLock(folder) && IsStillAt(path, folder)) return folder;
  absl::Status status = absl::UnavailableError(absl::StrCat(path, ": cannot be locked: ", std::strerror(errno)));
  if (folder >= 0) close(folder);
  return status;
}

bool IsNameOfOurs(std::string_view name) {
  return name.starts_with(kPrefix) && name.size() == kPrefix.size() + kPlaceholder.size();
}

bool IsPrivateToUs(int folder) {
  struct stat info = {};
  return fstat(folder, &info) == 0 && info.st_uid == geteuid() && (info.st_mode & 0777) == S_IRWXU;
}

void RemoveIfAbandoned(const std::string& path) {
  const int folder = OpenFolder(AT_FDCWD, path.c_str());
  if (folder < 0) return;  // another user's, a link, or gone by now
  const auto close_folder = absl::MakeCleanup([folder] { close(folder); });
  if (IsPrivateToUs(folder) && TryLock(folder) && IsStillAt(path, folder)) Remove(path, folder);
}

void RemoveAbandonedIn(const std::string& parent) {
  const int folder = open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;  // nothing can have been left there
  const auto close_folder = absl::MakeCleanup([folder] { close(folder); });
  for (const std::string& name : NamesIn(folder)) {
    if (IsNameOfOurs(name)) RemoveIfAbandoned(absl::StrCat(parent, "/", name));
  }
}

}  // namespace

absl::StatusOr<PrivateDirectory> PrivateDirectory::MakeIn(const std::string& parent, std::size_t longest_name) {
  absl::Status status;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    std::string path = absl::StrCat(parent, "/", std::string(kPrefix), std::string(kPlaceholder));
    if (path.size() + 1 + longest_name > kLongestSocketPath) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": too long for a socket's address"));
    }
    if (mkdtemp(path.data()) == nullptr) return absl::ErrnoToStatus(errno, path);
    const absl::StatusOr<int> descriptor = LockNew(path);
    if (descriptor.ok()) return PrivateDirectory(std::move(path), *descriptor);
    rmdir(path.c_str());  // if it is there at all
    status = descriptor.status();
  }
  return status;
}

absl::StatusOr<PrivateDirectory> PrivateDirectory::Make(std::size_t longest_name) {
  std::string errors;
  for (const std::string& parent : Parents()) {
    absl::StatusOr<PrivateDirectory> directory = MakeIn(parent, longest_name);
    if (directory.ok()) return directory;
    absl::StrAppend(&errors, " ", std::string(directory.status().message()), ";");
  }
  return absl::UnavailableError(absl::StrCat("no place for the control socket:", errors));
}

void PrivateDirectory::RemoveAbandoned() {
  for (const std::string& parent : Parents()) RemoveAbandonedIn(parent);
}

PrivateDirectory::PrivateDirectory(PrivateDirectory&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

PrivateDirectory::~PrivateDirectory() {
  if (descriptor_ < 0) return;
  Remove(path_, descriptor_);
  close(descriptor_);
}

}  // namespace trireme::server
