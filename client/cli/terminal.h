// What a command of `trireme` reads from and writes to, and how it ends.
#pragma once
#include <istream>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace trireme::client {

struct Terminal {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  bool is_interactive = false;  // `in` is a person's
};

using Arguments = std::vector<std::string>;  // without the program's and the command's name

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // the call failed, or the model does not fit
inline constexpr int kExitUsage = 2;

// Prints "COMMAND: message", points to --help, and returns kExitUsage.
int ReportUsage(std::string_view command, const absl::Status& status, Terminal& terminal);

// Prints "COMMAND: CODE: message" and returns kExitFailed.
int ReportFailure(std::string_view command, const absl::Status& status, Terminal& terminal);

}  // namespace trireme::client
