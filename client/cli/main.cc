#include <unistd.h>

#include <iostream>

#include "client/cli/commands.h"

int main(int argc, char** argv) {
  trireme::client::Terminal terminal{
      .in = std::cin, .out = std::cout, .err = std::cerr, .is_interactive = isatty(STDIN_FILENO) == 1};
  return trireme::client::RunTrireme({argv + 1, argv + argc}, terminal);
}
