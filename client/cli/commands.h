// The commands of `trireme`. Each takes its flags, runs, and returns the exit status.
#pragma once
#include "client/cli/terminal.h"

namespace trireme::client {

// Picks the command by the first argument.
int RunTrireme(const Arguments& arguments, Terminal& terminal);

int RunGenerate(const Arguments& arguments, Terminal& terminal);
int RunChat(const Arguments& arguments, Terminal& terminal);
int RunHealth(const Arguments& arguments, Terminal& terminal);
int RunPlan(const Arguments& arguments, Terminal& terminal);

// Picks the benchmark by the first argument.
int RunBench(const Arguments& arguments, Terminal& terminal);
int RunBenchServe(const Arguments& arguments, Terminal& terminal);
int RunBenchInterference(const Arguments& arguments, Terminal& terminal);

}  // namespace trireme::client
