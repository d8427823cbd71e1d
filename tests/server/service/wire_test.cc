#include "server/service/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/service/limits.h"
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

TEST(ParseRequest, RefusesUnknownFieldsInTheEntriesOfAMap) {
  const std::string unknown = {static_cast<char>(15 << 3), 1};
  const std::string entry = std::string({1 << 3, 7}) + std::string({2 << 3 | 5, 0, 0, 0, 0});
  EXPECT_TRUE(Parse(Field(7, Field(9, entry))).ok());
  const grpc::Status status = Parse(Field(7, Field(9, entry) + Field(9, entry + unknown)));
  EXPECT_EQ(ReasonOf(status), "UNKNOWN_FIELD");
  EXPECT_THAT(ViolatedFields(status), ElementsAre("sampling.logit_bias[1].15"));
}

TEST(ParseRequest, NamesAMapsValueOfAnotherWireType) {
  const grpc::Status status = Parse(Field(7, Field(9, std::string({1 << 3, 7, 2 << 3, 1}))));
  EXPECT_THAT(ViolatedFields(status), ElementsAre("sampling.logit_bias[0].value"));
}

// A list of `count` empty messages, strings or unknown fields, of two bytes each.
std::string Many(std::uint32_t count, const std::string& part) {
  std::string bytes;
  for (std::uint32_t i = 0; i < count; ++i) bytes += part;
  return bytes;
}

std::string LongField(int number, const std::string& bytes) {
  return static_cast<char>(number << 3 | 2) + Varint(bytes.size()) + bytes;
}

TEST(ParseRequest, RefusesAMessageOfTooManyPartsBeforeItMakesThem) {
  const std::string chat_message = {1 << 3 | 2, 0}, stop = {3 << 3 | 2, 0};
  v1::GenerateRequest request;
  const std::string chat = LongField(5, Many(kMaxMessageParts, chat_message));
  const absl::Status refused = ParseRequest(std::string_view(chat), request);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("more than 131072 strings and messages"));
  EXPECT_FALSE(request.has_chat());
  EXPECT_EQ(ReasonOf(Parse(LongField(8, Many(kMaxMessageParts, stop)))), "MALFORMED_MESSAGE");
  EXPECT_EQ(ReasonOf(Parse(LongField(7, Many(kMaxMessageParts, {15 << 3, 1})))), "MALFORMED_MESSAGE");
  EXPECT_TRUE(Parse(LongField(5, Many(kMaxMessageParts - 1, chat_message))).ok()) << "the chat is a part";
}

TEST(ParseRequest, CountsNoNumbersAsParts) {
  const std::string one_by_one = {1 << 3, 7};
  EXPECT_TRUE(Parse(LongField(4, Many(kMaxMessageParts + 5, one_by_one))).ok());
  EXPECT_TRUE(Parse(LongField(4, LongField(1, Many(kMaxMessageParts + 5, "\x07")))).ok());
}

TEST(ParseRequest, HasNothingAgainstKnownFields) { EXPECT_THAT(ViolatedFields(Parse(Field(3, "x"))), IsEmpty()); }

}  // namespace
}  // namespace trireme::server
