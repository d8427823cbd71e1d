#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace trireme::internal {

CheckFailure::CheckFailure(const char* file, int line, const std::string& what) {
  message_ << file << ":" << line << ": CHECK failed: " << what << " ";
}

CheckFailure::~CheckFailure() {
  std::fprintf(stderr, "%s\n", message_.str().c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace trireme::internal
