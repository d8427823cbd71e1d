#include "server/security/file_stamp.h"

#include <sys/stat.h>

namespace trireme::server {
namespace {

std::int64_t Nanoseconds(const timespec& time) { return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

}  // namespace

std::vector<FileStamp> StampsOf(const std::vector<std::string>& files) {
  std::vector<FileStamp> stamps;
  for (const std::string& file : files) {
    struct stat info {};
    if (stat(file.c_str(), &info) != 0) info = {};
    stamps.push_back({static_cast<std::int64_t>(info.st_dev), static_cast<std::int64_t>(info.st_ino), info.st_size,
                      Nanoseconds(info.st_mtim), Nanoseconds(info.st_ctim)});
  }
  return stamps;
}

}  // namespace trireme::server
