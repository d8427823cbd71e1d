// Bytes → a checkpoint's tokenizer.json → ids and text.
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "server/text/tokenizer.h"
#include "server/text/utf8_stream.h"
#include "tests/support/fuzz_target.h"

namespace trireme::server {
namespace {

void CheckFault(const absl::Status& status) {
  CHECK(status.code() == absl::StatusCode::kInvalidArgument || status.code() == absl::StatusCode::kUnimplemented)
      << " " << status.ToString();
  CHECK(!status.message().empty());
}

void Exercise(std::string_view json) {
  const auto made = Tokenizer::FromJson(json);
  if (!made.ok()) return CheckFault(made.status());
  const Tokenizer& tokenizer = **made;
  const std::uint32_t id_bound = tokenizer.tokens()->id_bound();
  const absl::StatusOr<std::vector<std::uint32_t>> ids = tokenizer.EncodeIds("<s> aab, é\n", true);
  if (!ids.ok()) return CheckFault(ids.status());
  for (const std::uint32_t id : *ids) CHECK_LT(id, id_bound);
  CHECK(IsUtf8(tokenizer.Decode(*ids, /*skip_special=*/false)));
  const std::vector<std::uint32_t> others = {0, 1, id_bound - 1, id_bound, ~std::uint32_t{0}};
  CHECK(IsUtf8(tokenizer.Decode(others, /*skip_special=*/true)));
}

}  // namespace
}  // namespace trireme::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::server::Exercise({reinterpret_cast<const char*>(data), size});
  return 0;
}
