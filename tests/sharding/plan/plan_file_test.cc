#include "sharding/plan/plan_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace trireme::sharding {
namespace {

using ::testing::HasSubstr;

std::string Refusal(std::string_view text) { return std::string(ParsePlan(text).status().message()); }

TEST(ParsePlan, ReadsNamesAndObjectsWithAStyle) {
  const auto plan = ParsePlan(R"({"lm_head": "replicate", "model.layers.*.mlp.up_proj": {"style": "colwise"}})");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->rules,
            (std::map<std::string, std::string>{{"lm_head", "replicate"}, {"model.layers.*.mlp.up_proj", "colwise"}}));
}

TEST(ParsePlan, ReadsAnEmptyPlan) { EXPECT_TRUE(ParsePlan("{}")->rules.empty()); }

TEST(ParsePlan, RefusesOptionsByName) {
  EXPECT_THAT(Refusal(R"({"lm_head": {"style": "rowwise", "split_factor": 3}})"), HasSubstr("\"split_factor\": 3"));
  EXPECT_THAT(Refusal(R"({"lm_head": {"style": 1}})"), HasSubstr("\"style\": 1"));
  EXPECT_THAT(Refusal(R"({"lm_head": {}})"), HasSubstr("\"style\""));
}

TEST(ParsePlan, RefusesWhatIsNoPlan) {
  for (const char* text : {"", "[]", "\"auto\"", "null", "{", "{\"a\": \"b\"} x"}) {
    EXPECT_THAT(Refusal(text), HasSubstr("JSON object")) << text;
  }
  EXPECT_THAT(Refusal(R"({"lm_head": 3})"), HasSubstr("got 3"));
  EXPECT_THAT(Refusal(R"({"lm_head": null})"), HasSubstr("lm_head"));
}

TEST(ParsePlan, RefusesARuleThatIsGivenTwice) {
  EXPECT_THAT(Refusal(R"({"lm_head": "colwise", "lm_head": "rowwise"})"), HasSubstr("key \"lm_head\" comes twice"));
  EXPECT_THAT(Refusal(R"({"lm_head": {"style": "colwise", "style": "rowwise"}})"),
              HasSubstr("key \"style\" comes twice"));
}

TEST(ParsePlan, SaysWhereItIsNoJson) { EXPECT_THAT(Refusal("{\"a\": \"b\",\n]"), HasSubstr("line 2, column 1")); }

TEST(ReadPlanFile, ReadsARuleAndNamesTheFileInErrors) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / ("plan_file_test" + std::to_string(getpid()) + ".json");
  std::ofstream(path) << R"({"lm_head": "colwise"})";
  EXPECT_EQ(ReadPlanFile(path)->rules.at("lm_head"), "colwise");
  for (const std::string& text : {std::string("{"), std::string(R"({"lm_head": 3})"), std::string(2 << 20, ' ')}) {
    std::ofstream(path) << text;
    EXPECT_THAT(std::string(ReadPlanFile(path).status().message()), HasSubstr(path.string())) << text.size();
  }
  std::filesystem::remove(path);
}

TEST(ReadPlanFile, NamesAMissingFile) {
  const absl::Status status = ReadPlanFile("/no/such/plan.json").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/no/such/plan.json"));
}

}  // namespace
}  // namespace trireme::sharding
