#include "server/text/rust_border.h"

#include "absl/strings/str_cat.h"

namespace trireme::server {

absl::Status RustStatus(int code, const RustBytes& error, std::string_view context) {
  if (code == TRIREME_TEXT_OK) return absl::OkStatus();
  const std::string text = absl::StrCat(std::string(context), context.empty() ? "" : ": ", std::string(error.view()));
  return code == TRIREME_TEXT_INVALID ? absl::InvalidArgumentError(text) : absl::InternalError(text);
}

}  // namespace trireme::server
