#include "server/service/unserved_fields.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "server/service/status_details.h"
#include "server/service/validate_generate.h"
#include "tests/server/service/details.h"
#include "tests/server/service/test_model.h"

namespace trireme::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using ::testing::ElementsAre;

// What this version serves: each of these is the subject of a test in validate_generate_test or inference_service_test.
// A field of the proto that is neither here nor refused fails the test below.
const std::set<std::string> kServed = {
    "request_id",
    "model",
    "text",
    "token_ids.ids",
    "chat.messages",
    "chat.template_variables_json",
    "chat.add_generation_prompt",
    "stream",
    "priority",
    "truncate_prompt_tokens",
    "add_special_tokens",
    "cache_salt",
    "sampling.temperature",
    "sampling.top_k",
    "sampling.top_p",
    "sampling.min_p",
    "sampling.typical_p",
    "sampling.repetition_penalty",
    "sampling.presence_penalty",
    "sampling.frequency_penalty",
    "sampling.logit_bias",
    "sampling.seed",
    "sampling.n",
    "stopping.max_tokens",
    "stopping.min_tokens",
    "stopping.stop",
    "stopping.stop_token_ids",
    "stopping.include_stop_str_in_output",
    "stopping.ignore_eos",
    "stopping.time_limit",
    "stopping.bad_words",
    "output.logprobs",
    "output.prompt_logprobs",
    "output.skip_special_tokens",
    "output.echo",
};

// Messages that are one thing to a client, and not a group of fields.
bool IsOneThing(const FieldDescriptor& field) {
  return field.is_repeated() || field.message_type()->full_name() == "google.protobuf.Duration" ||
         field.message_type()->full_name() == "trireme.v1.StringList";
}

void CollectPaths(const Descriptor& type, const std::string& prefix, std::vector<std::string>& paths) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !IsOneThing(field)) {
      CollectPaths(*field.message_type(), prefix + field.name() + ".", paths);
    } else {
      paths.push_back(prefix + field.name());
    }
  }
}

void SetScalar(Message& message, const FieldDescriptor& field) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return field.is_repeated() ? reflection.AddString(&message, &field, "x")
                                 : reflection.SetString(&message, &field, "x");
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.SetUInt32(&message, &field, 1);
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.SetInt32(&message, &field, 1);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.SetFloat(&message, &field, 1);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.SetBool(&message, &field, true);
    default:
      FAIL() << "no value for " << field.full_name();
  }
}

// Gives the field at `path` some value.
void Give(Message& message, const std::string& path) {
  const std::size_t dot = path.find('.');
  const FieldDescriptor& field = *message.GetDescriptor()->FindFieldByName(path.substr(0, dot));
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (dot != std::string::npos) {
    Give(*reflection.MutableMessage(&message, &field), path.substr(dot + 1));
  } else if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
    SetScalar(message, field);
  } else if (field.is_repeated()) {
    reflection.AddMessage(&message, &field);
  } else {
    Message& value = *reflection.MutableMessage(&message, &field);
    if (const FieldDescriptor* seconds = value.GetDescriptor()->FindFieldByName("seconds")) {
      value.GetReflection()->SetInt64(&value, seconds, 1);
    }
  }
}

TEST(UnservedFields, AreRefusedByNameWhileAllOthersAreServed) {
  std::vector<std::string> paths;
  CollectPaths(*v1::GenerateRequest::descriptor(), "", paths);
  ASSERT_GT(paths.size(), 30u);
  for (const std::string& path : paths) {
    if (kServed.contains(path)) continue;
    v1::GenerateRequest request;
    request.set_request_id("unserved");
    request.mutable_token_ids()->add_ids(1);
    Give(request, path);
    const absl::StatusOr<ValidatedGenerate> result = ValidateGenerate(IdsOnlyTestModel(), ServiceLimits(), request);
    const grpc::Status status = ToGrpcStatus(result.status(), absl::Seconds(1));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << path;
    EXPECT_EQ(ReasonOf(status), "UNSERVED_FIELD") << path;
    EXPECT_THAT(ViolatedFields(status), ElementsAre(path));
  }
}

TEST(UnservedFields, AreNotAmongTheServedOnes) {
  for (const std::string_view path : UnservedFields()) EXPECT_FALSE(kServed.contains(std::string(path))) << path;
}

TEST(UnservedFields, AreRefusedAllAtOnce) {
  v1::GenerateRequest request;
  request.set_adapter_id("a");
  request.set_regex("x");
  const grpc::Status status = ToGrpcStatus(RefuseUnservedFields(request), absl::Seconds(1));
  EXPECT_THAT(ViolatedFields(status), ElementsAre("regex", "adapter_id"));
}

TEST(UnservedFields, LetARequestWithoutThemPass) {
  v1::GenerateRequest request;
  request.set_text("x");
  request.mutable_sampling()->set_temperature(1);
  EXPECT_TRUE(RefuseUnservedFields(request).ok());
}

}  // namespace
}  // namespace trireme::server
