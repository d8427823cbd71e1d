#include "server/security/reloaded.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "tests/support/certificates.h"

namespace trireme::server {
namespace {

using ::testing::HasSubstr;

// Text of one file; "bad" is an error.
class ReloadedText : public ::testing::Test {
 protected:
  ReloadedText() { folder_.Write("text", "one"); }

  absl::StatusOr<std::unique_ptr<Reloaded<std::string>>> Start() {
    return Reloaded<std::string>::Start({.name = "text",
                                         .files = {file_},
                                         .load = [this]() -> absl::StatusOr<std::string> {
                                           const std::string text = ReadAll(file_);
                                           if (text == "bad") return absl::InvalidArgumentError("it is bad");
                                           ++num_loads_;
                                           return text;
                                         },
                                         .interval = absl::Milliseconds(5)});
  }

  static bool Becomes(const Reloaded<std::string>& text, const std::string& value) {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (*text.value() != value && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(2));
    return *text.value() == value;
  }

  const TestFolder folder_;
  const std::string file_ = folder_.File("text");
  std::atomic<int> num_loads_ = 0;
};

TEST_F(ReloadedText, FollowsAFileThatIsReplaced) {
  const auto text = Start();
  ASSERT_TRUE(text.ok());
  const std::shared_ptr<const std::string> old = (*text)->value();
  folder_.Write("text", "two");
  EXPECT_TRUE(Becomes(**text, "two"));
  EXPECT_EQ(*old, "one") << "those who have it may keep it";
}

TEST_F(ReloadedText, FollowsAFileThatIsWrittenOver) {
  const auto text = Start();
  ASSERT_TRUE(text.ok());
  std::ofstream(file_) << "six";  // of the same size
  EXPECT_TRUE(Becomes(**text, "six"));
}

// As Kubernetes replaces mounted secrets.
TEST_F(ReloadedText, FollowsALinkThatIsSwitched) {
  folder_.Write("second", "second");
  std::filesystem::rename(file_, folder_.File("first"));
  std::filesystem::create_symlink(folder_.File("first"), file_);
  const auto text = Start();
  ASSERT_TRUE(text.ok());
  std::filesystem::create_symlink(folder_.File("second"), folder_.File("link"));
  std::filesystem::rename(folder_.File("link"), file_);
  EXPECT_TRUE(Becomes(**text, "second"));
}

TEST_F(ReloadedText, KeepsTheValueWhileTheFileIsBadAndSaysSo) {
  const auto text = Start();
  ASSERT_TRUE(text.ok());
  ::testing::internal::CaptureStderr();
  folder_.Write("text", "bad");
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_EQ(*(*text)->value(), "one");
  folder_.Write("text", "good");
  EXPECT_TRUE(Becomes(**text, "good"));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("it is bad"));
}

TEST_F(ReloadedText, OutlivesAMissingFile) {
  const auto text = Start();
  ASSERT_TRUE(text.ok());
  std::filesystem::rename(file_, folder_.File("away"));
  absl::SleepFor(absl::Milliseconds(50));
  folder_.Write("text", "back");
  EXPECT_TRUE(Becomes(**text, "back"));
}

TEST_F(ReloadedText, DoesNotReadFilesThatDoNotChange) {
  const auto text = Start();
  ASSERT_TRUE(text.ok());
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_EQ(num_loads_, 1);
}

TEST_F(ReloadedText, FailsWhereTheFirstLoadDoes) {
  folder_.Write("text", "bad");
  EXPECT_EQ(Start().status(), absl::InvalidArgumentError("it is bad"));
}

}  // namespace
}  // namespace trireme::server
