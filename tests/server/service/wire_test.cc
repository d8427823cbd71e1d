#include "server/service/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/service/status_details.h"
#include "tests/server/service/details.h"
#include "trireme/v1/generate.pb.h"

namespace trireme::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kBadUtf8[] = "\xff\xfe";

grpc::Status Parse(const std::string& wire) {
  v1::GenerateRequest request;
  return ToGrpcStatus(ParseRequest(std::string_view(wire), request), absl::Seconds(1));
}

// A length-delimited field.
std::string Field(int number, const std::string& bytes) {
  EXPECT_LT(number, 16);
  EXPECT_LT(bytes.size(), 128u);
  return std::string({static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())}) + bytes;
}

TEST(ParseRequest, ReadsWhatWasWritten) {
  v1::GenerateRequest request, parsed;
  request.set_text("grüße");
  request.mutable_sampling()->set_temperature(0);
  ASSERT_TRUE(ParseRequest(std::string_view(request.SerializeAsString()), parsed).ok());
  EXPECT_EQ(parsed.SerializeAsString(), request.SerializeAsString());
}

TEST(ParseRequest, ReadsSlicesAsOneMessage) {
  v1::GenerateRequest request, parsed;
  request.set_text(std::string(1000, 'x'));
  const std::string wire = request.SerializeAsString();
  const std::vector<grpc::Slice> slices = {grpc::Slice(wire.substr(0, 1)), grpc::Slice(wire.substr(1, 500)),
                                           grpc::Slice(wire.substr(501))};
  ASSERT_TRUE(ParseRequest(grpc::ByteBuffer(slices.data(), slices.size()), parsed).ok());
  EXPECT_EQ(parsed.text(), request.text());
}

TEST(ParseRequest, TakesAnEmptyMessage) { EXPECT_TRUE(Parse("").ok()); }

TEST(ParseRequest, NamesTheStringThatIsNotUtf8) {
  const grpc::Status status = Parse(Field(3, kBadUtf8));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonOf(status), "MALFORMED_MESSAGE");
  EXPECT_THAT(ViolatedFields(status), ElementsAre("text"));
  EXPECT_THAT(status.error_message(), HasSubstr("not valid UTF-8"));
}

TEST(ParseRequest, NamesNestedAndRepeatedStringsThatAreNotUtf8) {
  const std::string good = Field(1, "user");
  const std::string chat = Field(1, good) + Field(1, good + Field(2, kBadUtf8)) + Field(2, kBadUtf8);
  EXPECT_THAT(ViolatedFields(Parse(Field(5, chat))),
              ElementsAre("chat.messages[1].content", "chat.template_variables_json"));
  const std::string stopping = Field(3, "ok") + Field(3, kBadUtf8);
  EXPECT_THAT(ViolatedFields(Parse(Field(8, stopping))), ElementsAre("stopping.stop[1]"));
}

TEST(ParseRequest, SaysWhichMessageIsCutOff) {
  v1::GenerateRequest request;
  request.mutable_token_ids()->add_ids(300);
  request.mutable_token_ids()->add_ids(5);
  std::string wire = request.SerializeAsString();
  wire.pop_back();
  EXPECT_THAT(ViolatedFields(Parse(wire)), ElementsAre("token_ids"));
}

TEST(ParseRequest, RefusesEveryPrefixOfAMessageOrReadsItAsOne) {
  v1::GenerateRequest request;
  request.set_text("some text");
  request.mutable_sampling()->set_top_p(0.5f);
  request.mutable_stopping()->add_stop_token_ids(7);
  const std::string wire = request.SerializeAsString();
  for (std::size_t size = 0; size < wire.size(); ++size) {
    const grpc::Status status = Parse(wire.substr(0, size));
    v1::GenerateRequest parsed;
    EXPECT_EQ(status.ok(), parsed.ParseFromString(wire.substr(0, size))) << size;
    EXPECT_EQ(ViolatedFields(status).size(), status.ok() ? 0u : 1u) << size;
  }
}

TEST(ParseRequest, RefusesGarbage) {
  const grpc::Status status = Parse(std::string(20, '\xff'));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_FALSE(ViolatedFields(status).empty());
}

TEST(ParseRequest, RefusesUnknownFieldsByPathAndNumber) {
  const std::string unknown = {static_cast<char>(15 << 3), 1};  // field 15, varint
  const grpc::Status nested = Parse(Field(7, unknown));
  EXPECT_EQ(ReasonOf(nested), "UNKNOWN_FIELD");
  EXPECT_THAT(ViolatedFields(nested), ElementsAre("sampling.15"));
  EXPECT_THAT(nested.error_message(), HasSubstr("trireme.v1.SamplingParams has no field of number 15"));
  EXPECT_THAT(ViolatedFields(Parse(Field(5, Field(1, Field(1, "user") + unknown)))),
              ElementsAre("chat.messages[0].15"));
}

TEST(ParseRequest, NamesAKnownFieldOfAnotherWireType) {
  const grpc::Status status = Parse(Field(6, "x"));  // `stream` as bytes
  EXPECT_THAT(ViolatedFields(status), ElementsAre("stream"));
  EXPECT_THAT(status.error_message(), HasSubstr("not encoded as a bool"));
}

// As many bytes as it takes, seven bits in each.
std::string Varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes.push_back(static_cast<char>(value | 128));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

constexpr std::uint64_t kWide = (std::uint64_t{1} << 40) + 5;

TEST(ParseRequest, RefusesTokenIdsBeyond32BitsInsteadOfCuttingThemOff) {
  const grpc::Status packed = Parse(Field(4, Field(1, Varint(7) + Varint(UINT32_MAX) + Varint(kWide))));
  EXPECT_EQ(packed.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(ViolatedFields(packed), ElementsAre("token_ids.ids[2]"));
  EXPECT_THAT(packed.error_message(), HasSubstr("is 1099511627781, which is no uint32"));
  const std::string one_by_one = {1 << 3};
  EXPECT_THAT(ViolatedFields(Parse(Field(4, Field(1, Varint(7)) + one_by_one + Varint(kWide)))),
              ElementsAre("token_ids.ids[1]"));
  EXPECT_TRUE(Parse(Field(4, Field(1, Varint(0) + Varint(UINT32_MAX)))).ok());
}

TEST(ParseRequest, RefusesOtherNumbersBeyond32Bits) {
  const std::string max_tokens = {1 << 3};
  EXPECT_THAT(ViolatedFields(Parse(Field(8, max_tokens + Varint(kWide)))), ElementsAre("stopping.max_tokens"));
  const std::string priority = {10 << 3};
  EXPECT_TRUE(Parse(priority + Varint(static_cast<std::uint64_t>(-100))).ok());
  EXPECT_THAT(ViolatedFields(Parse(priority + Varint(static_cast<std::uint64_t>(-kWide)))), ElementsAre("priority"));
}

TEST(ParseRequest, HasNothingAgainstKnownFields) { EXPECT_THAT(ViolatedFields(Parse(Field(3, "x"))), IsEmpty()); }

}  // namespace
}  // namespace trireme::server
