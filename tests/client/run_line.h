// `trireme` in this process.
#pragma once
#include <sstream>
#include <string>

#include "client/cli/commands.h"

namespace trireme::client {

struct Ran {
  int exit_status = 0;
  std::string out;
  std::string err;
};

// `arguments` without the program's name; `input` is what it can read.
inline Ran RunLine(const Arguments& arguments, const std::string& input = "") {
  std::istringstream in(input);
  std::ostringstream out, err;
  Terminal terminal{.in = in, .out = out, .err = err};
  const int exit_status = RunTrireme(arguments, terminal);
  return {exit_status, out.str(), err.str()};
}

}  // namespace trireme::client
