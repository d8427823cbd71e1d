#include "tests/end_to_end/server_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "tests/server/coordinator/children.h"

namespace trireme::end_to_end {
namespace {

using nlohmann::json;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kDemoModelFile[] = "SmolLM2-135M-Instruct.Q4_1.gguf";

// Runs `arguments` with all output going to the descriptor that is returned. Should this process crash, what it started
// goes too, and holds nobody's output open.
int Spawn(std::vector<std::string> arguments, pid_t* pid) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  *pid = fork();
  if (*pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  EXPECT_GT(*pid, 0) << "fork";
  close(ends[1]);
  return ends[0];
}

int PortOf(const std::string& address) {
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) << address;
  return port;
}

}  // namespace

ServerProcess::ServerProcess(const std::string& model, std::vector<std::string> arguments) {
  server::AdoptOrphans();
  std::vector<std::string> all = {TRIREME_BIN "/trireme-server",
                                  "--model",
                                  model,
                                  "--listen",
                                  "127.0.0.1:0",
                                  "--metrics-listen",
                                  "127.0.0.1:0",
                                  "--log-format",
                                  "json"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const int log = Spawn(std::move(all), &pid_);
  reader_ = std::thread([this, log] { ReadLog(log); });
}

ServerProcess::~ServerProcess() {
  if (!WaitForExit(absl::ZeroDuration())) {
    Signal(SIGKILL);
    WaitForExit();
  }
  EXPECT_THAT(server::ReapAll(absl::Seconds(10)), ::testing::IsEmpty()) << "orphans of the server";
  reader_.join();  // every process that could write to the log is gone
  // How a build with sanitizers tells of an error, in the server or a worker, whose exit status may go unseen.
  EXPECT_THAT(log(), Not(AnyOf(HasSubstr("Sanitizer:"), HasSubstr("runtime error:"))));
  if (::testing::Test::HasFailure()) std::cerr << "The server's log:\n" << log();
}

void ServerProcess::ReadLog(int descriptor) {
  std::string rest;
  char bytes[4096];
  for (ssize_t count; (count = read(descriptor, bytes, sizeof(bytes))) > 0;) {
    rest.append(bytes, static_cast<std::size_t>(count));
    MutexLock lock(mutex_);
    log_.append(bytes, static_cast<std::size_t>(count));
    for (std::size_t end; (end = rest.find('\n')) != std::string::npos; rest.erase(0, end + 1)) {
      json event = json::parse(rest.substr(0, end), nullptr, /*allow_exceptions=*/false);
      if (event.is_object()) events_.push_back(std::move(event));
    }
    changed_.SignalAll();
  }
  close(descriptor);
  MutexLock lock(mutex_);
  has_ended_ = true;
  changed_.SignalAll();
}

std::optional<json> ServerProcess::WaitForLog(const std::string& message, int count, absl::Duration patience) {
  const absl::Time deadline = absl::Now() + patience;
  MutexLock lock(mutex_);
  while (true) {
    int seen = 0;
    for (const json& event : events_) {
      if (event.value("message", "") == message && ++seen == count) return event;
    }
    if (has_ended_ || !changed_.WaitUntil(mutex_, deadline)) return std::nullopt;
  }
}

bool ServerProcess::BecomesServing(int generation) {
  const bool is_serving = WaitForLog("serving", generation).has_value();
  EXPECT_TRUE(is_serving) << log();
  return is_serving;
}

std::string ServerProcess::target() {
  const std::optional<json> listening = WaitForLog("listening");
  EXPECT_TRUE(listening.has_value()) << log();
  return listening ? (*listening)["address"].get<std::string>() : "";
}

int ServerProcess::metrics_port() {
  const std::optional<json> listening = WaitForLog("listening");
  return listening ? PortOf((*listening)["metrics_address"].get<std::string>()) : 0;
}

v1::InferenceService::Stub& ServerProcess::stub() {
  if (stub_ == nullptr) {
    stub_ = v1::InferenceService::NewStub(grpc::CreateChannel(target(), grpc::InsecureChannelCredentials()));
  }
  return *stub_;
}

v1::GetServerInfoResponse ServerProcess::ServerInfo() {
  v1::GetServerInfoResponse info;
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(10)));
  const grpc::Status status = stub().GetServerInfo(&context, {}, &info);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return info;
}

v1::GetLoadsResponse ServerProcess::Loads() {
  v1::GetLoadsResponse loads;
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(10)));
  const grpc::Status status = stub().GetLoads(&context, {}, &loads);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return loads;
}

void ServerProcess::Signal(int number) { kill(pid_, number); }

std::optional<int> ServerProcess::WaitForExit(absl::Duration patience) {
  const absl::Time deadline = absl::Now() + patience;
  while (!exit_status_) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      exit_status_ = status;
      MutexLock lock(mutex_);
      // What it wrote last may still be on its way.
      while (!has_ended_ && changed_.WaitUntil(mutex_, absl::Now() + absl::Seconds(2))) {
      }
    } else if (absl::Now() >= deadline) {
      return std::nullopt;
    } else {
      absl::SleepFor(absl::Milliseconds(5));
    }
  }
  return exit_status_;
}

std::string ServerProcess::log() {
  MutexLock lock(mutex_);
  return log_;
}

std::optional<std::string> DemoModel() {
  const char* given = std::getenv("TRIREME_DEMO_MODEL");
  const char* home = std::getenv("HOME");
  const std::string path = given != nullptr
                               ? std::string(given)
                               : std::string(home == nullptr ? "" : home) + "/.cache/trireme/models/" + kDemoModelFile;
  if (std::filesystem::exists(path)) return path;
  std::cerr << "no demo model at " << path << ": run deploy/fetch_demo_model.sh\n";
  return std::nullopt;
}

std::vector<std::string> ForDemoModel(std::vector<std::string> arguments) {
  if (test_support::kIsSanitized) arguments.insert(arguments.end(), {"--max-num-batched-tokens", "64"});
  return arguments;
}

}  // namespace trireme::end_to_end
