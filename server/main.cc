#include <optional>

#include "base/flags.h"
#include "server/run.h"
#include "server/server_options.h"

int main(int argc, char** argv) {
  trireme::server::ServerOptions options;
  const trireme::FlagParser flags = trireme::server::ServerFlags(options);
  if (const std::optional<int> status = trireme::ParseOrExit(flags, {argv + 1, argv + argc})) return *status;
  return trireme::server::Run(options);
}
