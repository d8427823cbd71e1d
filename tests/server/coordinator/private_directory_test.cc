#include "server/coordinator/private_directory.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

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

// Folders below a runtime directory of its own.
class AbandonedDirectories : public testing::Test {
 protected:
  AbandonedDirectories() { std::filesystem::create_directories(parent_); }
  ~AbandonedDirectories() override { std::filesystem::remove_all(parent_); }

  // A folder with a file in it, as a killed server leaves it unless told otherwise.
  std::filesystem::path AddFolder(const std::string& name = "trireme-control-aB3xY9", mode_t mode = 0700) {
    std::filesystem::create_directory(parent_ / name);
    std::ofstream(parent_ / name / "control") << "left";
    EXPECT_EQ(chmod((parent_ / name).c_str(), mode), 0);
    return parent_ / name;
  }

  const std::filesystem::path parent_ = std::filesystem::path(testing::TempDir()) / absl::StrCat("abandoned", getpid());
  const RuntimeDirectory runtime_{parent_.c_str()};
};

TEST_F(AbandonedDirectories, AreRemovedWithTheirFiles) {
  const std::filesystem::path full = AddFolder();
  const std::filesystem::path empty = parent_ / "trireme-control-000000";
  std::filesystem::create_directory(empty);
  std::filesystem::permissions(empty, std::filesystem::perms::owner_all);
  PrivateDirectory::RemoveAbandoned();
  EXPECT_FALSE(std::filesystem::exists(full));
  EXPECT_FALSE(std::filesystem::exists(empty));
}

TEST_F(AbandonedDirectories, AreThoseThatNobodyHolds) {
  const absl::StatusOr<PrivateDirectory> first = PrivateDirectory::Make(8);
  const absl::StatusOr<PrivateDirectory> second = PrivateDirectory::Make(8);
  ASSERT_TRUE(first.ok() && second.ok());
  std::ofstream(first->path() / "control") << "in use";
  PrivateDirectory::RemoveAbandoned();
  EXPECT_TRUE(std::filesystem::exists(first->path() / "control"));
  EXPECT_TRUE(std::filesystem::exists(second->path()));
}

TEST_F(AbandonedDirectories, AreKnownByNameAndMode) {
  const std::vector<std::filesystem::path> others = {
      AddFolder("trireme-control-longer7"), AddFolder("trireme-control-"), AddFolder("trireme-aB3xY9"),
      AddFolder("xtrireme-control-aB3xY"), AddFolder("trireme-control-M0de55", 0755)};
  std::ofstream(parent_ / "trireme-control-afile1") << "no folder";
  PrivateDirectory::RemoveAbandoned();
  for (const auto& other : others) EXPECT_TRUE(std::filesystem::exists(other / "control")) << other;
  EXPECT_TRUE(std::filesystem::exists(parent_ / "trireme-control-afile1"));
}

TEST_F(AbandonedDirectories, OfAnotherUserAreLeftAlone) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a folder of another user";
  const std::filesystem::path folder = AddFolder();
  ASSERT_EQ(chown(folder.c_str(), 12345, 12345), 0);
  PrivateDirectory::RemoveAbandoned();
  EXPECT_TRUE(std::filesystem::exists(folder / "control"));
}

TEST_F(AbandonedDirectories, AreNeverWhatALinkPointsTo) {
  const std::filesystem::path victim = AddFolder("victim");
  std::filesystem::create_directory_symlink(victim, parent_ / "trireme-control-hostil");
  const std::filesystem::path folder = AddFolder();
  std::filesystem::create_symlink(victim / "control", folder / "file");
  std::filesystem::create_directory_symlink(victim, folder / "folder");
  PrivateDirectory::RemoveAbandoned();
  EXPECT_TRUE(std::filesystem::exists(victim / "control"));
  EXPECT_TRUE(std::filesystem::is_symlink(parent_ / "trireme-control-hostil"));
  EXPECT_FALSE(std::filesystem::exists(folder)) << "links in it go with it";
}

TEST_F(AbandonedDirectories, StayIfAFolderIsInThem) {
  const std::filesystem::path folder = AddFolder();
  std::filesystem::create_directory(folder / "folder");
  std::ofstream(folder / "folder" / "file") << "not ours";
  PrivateDirectory::RemoveAbandoned();
  EXPECT_TRUE(std::filesystem::exists(folder / "folder" / "file"));
}

// Each server looks for abandoned folders while the others make theirs.
TEST_F(AbandonedDirectories, AreNotThoseThatAreJustBeingMade) {
  std::atomic<int> num_lost = 0;
  const auto serve = [&num_lost] {
    for (int i = 0; i < 300; ++i) {
      PrivateDirectory::RemoveAbandoned();
      const absl::StatusOr<PrivateDirectory> directory = PrivateDirectory::Make(8);
      if (!directory.ok()) ++num_lost;
      PrivateDirectory::RemoveAbandoned();
      if (directory.ok() && !std::ofstream(directory->path() / "control").is_open()) ++num_lost;
    }
  };
  std::vector<std::thread> servers;
  for (int i = 0; i < 6; ++i) servers.emplace_back(serve);
  for (std::thread& server : servers) server.join();
  EXPECT_EQ(num_lost, 0);
  EXPECT_TRUE(std::filesystem::is_empty(parent_));
}

}  // namespace
}  // namespace trireme::server
