#include "server/coordinator/private_directory.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/logging.h"

namespace trireme::server {
namespace {

constexpr std::size_t kLongestSocketPath = 107;  // of sockaddr_un
constexpr char kPattern[] = "/trireme-XXXXXX";

std::vector<std::string> Parents() {
  std::vector<std::string> parents;
  if (const char* runtime = getenv("XDG_RUNTIME_DIR"); runtime != nullptr && *runtime == '/') {
    parents.push_back(runtime);
  }
  parents.push_back("/tmp");
  return parents;
}

}  // namespace

absl::StatusOr<PrivateDirectory> PrivateDirectory::Make(std::size_t longest_name) {
  std::string errors;
  for (const std::string& parent : Parents()) {
    std::string path = absl::StrCat(parent, kPattern);
    if (path.size() + 1 + longest_name > kLongestSocketPath) {
      absl::StrAppend(&errors, " ", path, ": too long for a socket's address;");
    } else if (mkdtemp(path.data()) == nullptr) {
      absl::StrAppend(&errors, " ", path, ": ", std::strerror(errno), ";");
    } else {
      return PrivateDirectory(std::move(path));
    }
  }
  return absl::UnavailableError(absl::StrCat("no place for the control socket:", errors));
}

PrivateDirectory::PrivateDirectory(PrivateDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}

PrivateDirectory::~PrivateDirectory() {
  if (path_.empty()) return;
  std::error_code error;
  std::filesystem::remove_all(path_, error);
  if (error)
    LogWarning("cannot remove the control socket's folder", {{"path", path_.string()}, {"error", error.message()}});
}

}  // namespace trireme::server
