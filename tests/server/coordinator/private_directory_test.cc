#include "server/coordinator/private_directory.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>
#include <optional>
#include <string>

namespace trireme::server {
namespace {

// XDG_RUNTIME_DIR for the length of a test.
class RuntimeDirectory {
 public:
  explicit RuntimeDirectory(const char* value) {
    if (const char* before = getenv("XDG_RUNTIME_DIR")) before_ = before;
    value != nullptr ? setenv("XDG_RUNTIME_DIR", value, 1) : unsetenv("XDG_RUNTIME_DIR");
  }
  ~RuntimeDirectory() { before_ ? setenv("XDG_RUNTIME_DIR", before_->c_str(), 1) : unsetenv("XDG_RUNTIME_DIR"); }

 private:
  std::optional<std::string> before_;
};

TEST(PrivateDirectory, NobodyElseMayEnterAndItGoesWithUs) {
  const RuntimeDirectory runtime(nullptr);
  std::filesystem::path path;
  {
    const absl::StatusOr<PrivateDirectory> directory = PrivateDirectory::Make(8);
    ASSERT_TRUE(directory.ok()) << directory.status();
    path = directory->path();
    EXPECT_EQ(path.parent_path(), "/tmp");
    struct stat info = {};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
    std::ofstream(path / "left") << "behind";
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(PrivateDirectory, LiesInTheUsersRuntimeDirectoryIfThereIsOne) {
  const std::string parent = testing::TempDir() + "/runtime";
  std::filesystem::create_directories(parent);
  const RuntimeDirectory runtime(parent.c_str());
  const absl::StatusOr<PrivateDirectory> directory = PrivateDirectory::Make(8);
  ASSERT_TRUE(directory.ok()) << directory.status();
  EXPECT_EQ(directory->path().parent_path(), parent);
}

TEST(PrivateDirectory, FallsBackWhereTheRuntimeDirectoryIsMissingOrTooLong) {
  for (const std::string& parent : {std::string("/nowhere"), "/" + std::string(100, 'x')}) {
    const RuntimeDirectory runtime(parent.c_str());
    const absl::StatusOr<PrivateDirectory> directory = PrivateDirectory::Make(8);
    ASSERT_TRUE(directory.ok()) << directory.status();
    EXPECT_EQ(directory->path().parent_path(), "/tmp");
  }
}

TEST(PrivateDirectory, SaysSoWhereNoPathIsShortEnough) {
  EXPECT_EQ(PrivateDirectory::Make(100).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace trireme::server
