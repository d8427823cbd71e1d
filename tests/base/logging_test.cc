#include "base/logging.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trireme {
namespace {

TEST(Logging, NamesAnUnknownFormat) {
  EXPECT_EQ(*ParseLogFormat("json"), LogFormat::kJson);
  EXPECT_EQ(ParseLogFormat("xml").status().message(), "log format \"xml\": expected text or json");
}

TEST(Logging, JsonLinesParse) {
  SetUpLogging(LogFormat::kJson, "test");
  testing::internal::CaptureStderr();
  LogWarning("quoted \"text\"", {{"rank", 3}, {"ok", true}, {"ratio", 0.5}, {"name", "bad \xff byte"}});
  const auto line = nlohmann::json::parse(testing::internal::GetCapturedStderr());
  EXPECT_EQ(line["level"], "WARNING");
  EXPECT_EQ(line["message"], "quoted \"text\"");
  EXPECT_EQ(line["rank"], 3);
  EXPECT_EQ(line["ok"], true);
  SetUpLogging(LogFormat::kText, "test");
}

}  // namespace
}  // namespace trireme
