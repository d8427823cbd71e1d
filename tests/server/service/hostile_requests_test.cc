// Requests that nobody should send, each with the status and a part of the message that it must get:
// tests/fixtures/hostile/requests.jsonl. A line holds
//   name       what is wrong with it
//   request    a GenerateRequest as JSON, in which {"$repeat": "x", "times": 3} stands for "xxx", {"$list": v, "times": 3}
//              for [v, v, v] and {"$concat": [...]} for strings put together; or
//   wire       a message's bytes, in base64
//   model      whom it is sent to: "text" (if absent), "no_template", "ids_only"
//   status     the name of its code
//   message    part of what it says
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "base/check.h"
#include "server/service/status_details.h"
#include "server/service/validate_generate.h"
#include "server/service/wire.h"
#include "tests/server/service/test_model.h"

namespace trireme::server {
namespace {

using nlohmann::json;

std::vector<json> Corpus() {
  std::ifstream file(TRIREME_FIXTURES "/hostile/requests.jsonl");
  std::vector<json> cases;
  for (std::string line; std::getline(file, line);) cases.push_back(json::parse(line));
  return cases;
}

json Expanded(const json& value) {
  if (value.contains("$repeat")) {
    std::string text;
    for (int i = 0; i < value["times"].get<int>(); ++i) text += value["$repeat"].get_ref<const std::string&>();
    return text;
  }
  if (value.contains("$list")) return json::array_t(value["times"].get<std::size_t>(), Expanded(value["$list"]));
  if (value.contains("$concat")) {
    std::string text;
    for (const json& part : value["$concat"]) text += Expanded(part).get_ref<const std::string&>();
    return text;
  }
  if (!value.is_structured()) return value;
  json result = value;
  for (json& part : result) part = Expanded(part);
  return result;
}

// The bytes that a client would send.
std::string WireOf(const json& one) {
  if (one.contains("wire")) {
    std::string bytes;
    CHECK(absl::Base64Unescape(one["wire"].get<std::string>(), &bytes));
    return bytes;
  }
  v1::GenerateRequest request;
  const auto status = google::protobuf::util::JsonStringToMessage(Expanded(one["request"]).dump(), &request);
  EXPECT_TRUE(status.ok()) << one["name"] << ": " << status.ToString();
  return request.SerializeAsString();
}

const ServedModel& ModelOf(const json& one) {
  static const ServedModel* const text = new ServedModel(TextTestModel());
  static const ServedModel* const ids_only = new ServedModel(IdsOnlyTestModel());
  static const ServedModel* const no_template = [] {
    auto* model = new ServedModel(TextTestModel());
    model->text = TextModel(model->text.tokenizer(), nullptr, {});
    return model;
  }();
  const std::string name = one.value("model", "text");
  return name == "ids_only" ? *ids_only : name == "no_template" ? *no_template : *text;
}

absl::Status Answer(const json& one) {
  v1::GenerateRequest request;
  const absl::Status parsed = ParseRequest(std::string_view(WireOf(one)), request);
  if (request.request_id().empty()) request.set_request_id("hostile");
  return parsed.ok() ? ValidateGenerate(ModelOf(one), ServiceLimits(), request).status() : parsed;
}

TEST(HostileRequests, GetTheirStatusAndSayWhy) {
  const std::vector<json> cases = Corpus();
  ASSERT_GE(cases.size(), 200u);
  for (const json& one : cases) {
    SCOPED_TRACE(one["name"].get<std::string>());
    const absl::Status status = Answer(one);
    EXPECT_EQ(absl::StatusCodeToString(status.code()), one["status"].get<std::string>()) << status;
    const grpc::Status for_client = ToGrpcStatus(status, absl::Seconds(1));
    EXPECT_TRUE(absl::StrContains(for_client.error_message(), one["message"].get<std::string>()))
        << for_client.error_message() << "\n  should say: " << one["message"];
    EXPECT_LT(for_client.error_message().size() + for_client.error_details().size(), 8u << 10)
        << "does not fit into HTTP/2 trailers";
  }
}

}  // namespace
}  // namespace trireme::server
