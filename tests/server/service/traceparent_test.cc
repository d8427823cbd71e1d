#include "server/service/traceparent.h"

#include <gtest/gtest.h>

namespace trireme::server {
namespace {

constexpr char kTraceId[] = "0af7651916cd43dd8448eb211c80319c";

std::string Parsed(const std::string& header) { return ParseTraceId(header).value_or("invalid"); }

TEST(Traceparent, GivesTheTraceId) {
  EXPECT_EQ(Parsed("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), kTraceId);
  EXPECT_EQ(Parsed("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"), kTraceId) << "not sampled";
  EXPECT_EQ(Parsed("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-ff"), kTraceId) << "flags to come";
}

TEST(Traceparent, OfALaterVersionMayHaveMoreBehindADash) {
  EXPECT_EQ(Parsed("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), kTraceId);
  EXPECT_EQ(Parsed("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-the-future-brings"), kTraceId);
  EXPECT_EQ(Parsed("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-"), kTraceId);
  EXPECT_EQ(Parsed("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.what"), "invalid");
}

TEST(Traceparent, IsInvalidIfAnythingIsNotAsItShouldBe) {
  for (const char* header : {
           "",
           "00",
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",          // no flags
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",        // half of them
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",      // more than version 00 has
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what",  //
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-010",      //
           "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",       // the version that is none
           "0g-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",       //
           "0-00af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",       //
           "00-00000000000000000000000000000000-b7ad6b7169203331-01",       // ids of zeros
           "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",       //
           "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",       // upper case
           "00-0af7651916cd43dd8448eb211c80319c-B7AD6B7169203331-01",       //
           "CC-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",       //
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0A",       //
           "00-.af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",       // no hexadecimal digits
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333.-01",       //
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-.0",       //
           "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",       // no dashes
           "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",       //
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331_01",       //
           " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",      //
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 ",      //
           "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331a-01",       // dashes elsewhere
           "00-0af7651916cd43dd8448eb211c80319cb-7ad6b7169203331-01",       //
       }) {
    EXPECT_EQ(Parsed(header), "invalid") << header;
  }
}

}  // namespace
}  // namespace trireme::server
