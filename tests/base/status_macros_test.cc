#include "base/status_macros.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace trireme {
namespace {

absl::StatusOr<std::unique_ptr<int>> Make(bool good) {
  if (!good) return absl::NotFoundError("no such thing");
  return std::make_unique<int>(7);
}

absl::StatusOr<int> Use(bool good) {
  ASSIGN_OR_RETURN(std::unique_ptr<int> value, Make(good));
  return *value;
}

absl::Status Forward(absl::Status status) {
  RETURN_IF_ERROR(status);
  return absl::AlreadyExistsError("went on");
}

TEST(StatusMacros, AssignsMoveOnlyValues) { EXPECT_EQ(*Use(true), 7); }

TEST(StatusMacros, ReturnTheError) {
  EXPECT_EQ(Use(false).status(), absl::NotFoundError("no such thing"));
  EXPECT_EQ(Forward(absl::NotFoundError("x")), absl::NotFoundError("x"));
  EXPECT_EQ(Forward(absl::OkStatus()), absl::AlreadyExistsError("went on"));
}

}  // namespace
}  // namespace trireme
