// A worker for tests: control stream, shared memory and processes are the real ones, the model is not. It misbehaves as
// TRIREME_TEST_SCRIPT says: words "key=value" with blanks between them.
//
//   at=dial|load|step   where                     rank=R        only this rank (not at=dial); all by default
//   step=K              in which step             generation=G  only this one (not at=dial); all by default
//   do=exit|kill|hang|fail|freeze|slow|stall|build   what
//   code=N              of do=fail, an absl::StatusCode
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/flags.h"
#include "base/status_macros.h"
#include "tests/worker/control/fake_executor.h"
#include "worker/control/host_communicator.h"
#include "worker/control/local_worker.h"

namespace trireme::worker {
namespace {

constexpr int kLoadParts = 10;

class Script {
 public:
  static Script FromEnvironment() {
    Script script;
    const char* text = std::getenv("TRIREME_TEST_SCRIPT");
    for (const auto word : absl::StrSplit(text == nullptr ? "" : text, ' ', absl::SkipEmpty())) {
      const std::vector<std::string> pair = absl::StrSplit(absl::string_view(word), '=');
      script.words_[pair.at(0)] = pair.at(1);
    }
    return script;
  }

  bool Says(const std::string& key, const std::string& value) const {
    const auto word = words_.find(key);
    return word != words_.end() && word->second == value;
  }
  bool IsMeant(const v1::Configure& configure) const {
    return IsFor("rank", configure.rank()) && IsFor("generation", configure.generation());
  }
  int Number(const std::string& key) const {
    int number = 0;
    CHECK(absl::SimpleAtoi(words_.at(key), &number)) << key;
    return number;
  }

  // Does what is to be done, if it is one of the things that can be done anywhere.
  absl::Status Act() const {
    if (Says("do", "exit")) _exit(3);
    if (Says("do", "kill")) raise(SIGKILL);
    if (Says("do", "freeze")) raise(SIGSTOP);
    if (Says("do", "hang")) absl::SleepFor(absl::Hours(1));
    if (Says("do", "fail")) return absl::Status(static_cast<absl::StatusCode>(Number("code")), "as the script says");
    return absl::OkStatus();
  }

 private:
  bool IsFor(const std::string& key, std::uint64_t value) const {
    return !words_.contains(key) || Says(key, std::to_string(value));
  }

  std::map<std::string, std::string> words_;
};

// Slowly, with progress; or stops in the middle.
void LoadParts(const Script& script, LoadProgress& progress) {
  progress.total_bytes = kLoadParts;
  for (int part = 0; part < kLoadParts; ++part) {
    absl::SleepFor(absl::Milliseconds(100));
    progress.loaded_bytes = part + 1;
    if (script.Says("do", "stall") && part == kLoadParts / 2) absl::SleepFor(absl::Hours(1));
  }
}

absl::StatusOr<std::unique_ptr<Executor>> Load(const Script& script, const v1::Configure& configure,
                                               Communicator& communicator, LoadProgress& progress) {
  const bool is_meant = script.IsMeant(configure);
  if (is_meant && script.Says("at", "load")) {
    RETURN_IF_ERROR(script.Act());
    LoadParts(script, progress);
  }
  RETURN_IF_ERROR(communicator.Barrier(absl::Minutes(1)));
  return std::make_unique<FakeExecutor>([script, is_meant, &communicator](const v1::Step& step) -> absl::Status {
    if (is_meant && script.Says("at", "step") && script.Says("step", std::to_string(step.number()))) {
      RETURN_IF_ERROR(script.Act());
    }
    return communicator.Barrier();
  });
}

int Main(const LocalWorkerOptions& options) {
  const Script script = Script::FromEnvironment();
  if (script.Says("at", "dial")) CHECK_OK(script.Act());
  const WorkerParts parts = {
      .make_communicator =
          [&](const v1::Configure& configure) { return MakeHostCommunicator(configure, options.communicator_fd); },
      .load_executor = [&](const v1::Configure& configure, Communicator& communicator,
                           LoadProgress& progress) { return Load(script, configure, communicator, progress); }};
  return script.Says("do", "build") ? RunLocalWorker(options, parts, "0.0.0+another") : RunLocalWorker(options, parts);
}

}  // namespace
}  // namespace trireme::worker

int main(int argc, char** argv) {
  trireme::worker::LocalWorkerOptions options;
  trireme::FlagParser flags("scripted_worker", "A worker for tests.");
  trireme::worker::AddFlags(flags, &options);
  if (const std::optional<int> exit_status = trireme::ParseOrExit(flags, {argv + 1, argv + argc})) return *exit_status;
  return trireme::worker::Main(options);
}
