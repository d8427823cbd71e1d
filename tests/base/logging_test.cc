#include "base/logging.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

namespace trireme {
namespace {

TEST(Logging, NamesAnUnknownFormat) {
  EXPECT_EQ(*ParseLogFormat("json"), LogFormat::kJson);
  EXPECT_EQ(ParseLogFormat("xml").status().message(), "log format \"xml\": expected text or json");
}

TEST(Logging, KnowsItsLevelsByName) {
  for (const LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    EXPECT_EQ(*ParseLogLevel(NameOf(level)), level);
  }
  EXPECT_EQ(ParseLogLevel("loud").status().message(), "log level \"loud\": expected debug, info, warning or error");
}

TEST(Logging, LeavesOutWhatIsBelowItsLevel) {
  for (const auto& [least, num_lines] :
       {std::pair(LogLevel::kDebug, 4), {LogLevel::kInfo, 3}, {LogLevel::kWarning, 2}, {LogLevel::kError, 1}}) {
    SetUpLogging(LogFormat::kText, "test", least);
    testing::internal::CaptureStderr();
    LogDebug("a");
    LogInfo("b");
    LogWarning("c");
    LogError("d");
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), num_lines) << log;
  }
  SetUpLogging(LogFormat::kText, "test");
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
