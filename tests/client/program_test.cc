// The program itself: what only a process can show.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "tests/client/scripted_server.h"

namespace trireme::client {
namespace {

using ::testing::HasSubstr;

// A running `trireme` with pipes to its standard streams.
class Program {
 public:
  explicit Program(std::vector<std::string> arguments) {
    std::array<int, 2> in{}, out{}, err{};
    CHECK(pipe2(in.data(), O_CLOEXEC) == 0 && pipe2(out.data(), O_CLOEXEC) == 0 && pipe2(err.data(), O_CLOEXEC) == 0);
    std::string path = std::string(TRIREME_BIN) + "/trireme";
    std::vector<char*> argv = {path.data()};
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    CHECK_GE(pid_, 0);
    if (pid_ == 0) {
      if (dup2(in[0], 0) < 0 || dup2(out[1], 1) < 0 || dup2(err[1], 2) < 0) _exit(126);
      execv(path.c_str(), argv.data());
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    close(err[1]);
    in_ = in[1];
    out_ = out[0];
    err_ = err[0];
  }
  ~Program() {
    CloseInput();
    if (pid_ > 0) Wait();
    close(out_);
    close(err_);
  }

  void Write(const std::string& text) {
    CHECK_EQ(write(in_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void CloseInput() {
    if (in_ >= 0) close(in_);
    in_ = -1;
  }
  void Signal(int number) { kill(pid_, number); }

  // Reads standard output until it holds `text`, or ends.
  std::string ReadOutputUntil(const std::string& text) { return ReadUntil(out_, text); }
  std::string ReadErrorUntil(const std::string& text) { return ReadUntil(err_, text); }

  // The status as of waitpid; kills the program if it does not end within 30 s.
  int Wait() {
    int status = 0;
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      if (absl::Now() > deadline) kill(pid_, SIGKILL);
      absl::SleepFor(absl::Milliseconds(5));
    }
    pid_ = -1;
    return status;
  }

 private:
  static std::string ReadUntil(int descriptor, const std::string& text) {
    std::string all;
    char byte = 0;
    while (all.find(text) == std::string::npos && read(descriptor, &byte, 1) == 1) all.push_back(byte);
    return all;
  }

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
};

TEST(TriremeProgram, EndsWithTheCommandsStatus) {
  Program version({"--version"});
  EXPECT_THAT(version.ReadOutputUntil("\n"), HasSubstr("trireme "));
  EXPECT_EQ(version.Wait(), 0);
  EXPECT_EQ(WEXITSTATUS(Program({"sail"}).Wait()), 2);
}

TEST(TriremeProgram, FailsIfItsOutputCannotBeWritten) {
  const int status = std::system(TRIREME_BIN "/trireme --version > /dev/full 2> /dev/null");
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
}

TEST(TriremeProgram, EndsAnAnswerAtCtrlCAndGoesOnChatting) {
  ScriptedServer server([](int call, grpc::ServerContext* context, Writer* writer) {
    return call == 0 ? SayHelloAndHang(call, context, writer) : SayHello(call, context, writer);
  });
  Program chat({"chat", "--target", server.target()});
  chat.Write("first\n");
  EXPECT_EQ(chat.ReadOutputUntil("Hello"), "Hello");
  chat.Signal(SIGINT);
  EXPECT_THAT(chat.ReadErrorUntil("]\n"), HasSubstr("[1 token, "));
  chat.Write("second\n");
  EXPECT_THAT(chat.ReadOutputUntil("world\n"), HasSubstr("Hello world\n"));
  chat.CloseInput();
  EXPECT_EQ(chat.Wait(), 0);
  ASSERT_EQ(server.requests().size(), 2u);
  ASSERT_EQ(server.requests()[1].chat().messages_size(), 3);
  EXPECT_EQ(server.requests()[1].chat().messages(1).content(), "Hello");  // what there was of it
}

TEST(TriremeProgram, HangsUpWhenGenerateIsInterrupted) {
  std::atomic<bool> gone = false;
  ScriptedServer server([&](int call, grpc::ServerContext* context, Writer* writer) {
    const grpc::Status status = SayHelloAndHang(call, context, writer);
    gone = true;
    return status;
  });
  Program generate({"generate", "--prompt", "x", "--target", server.target()});
  generate.ReadOutputUntil("Hello");
  generate.Signal(SIGINT);
  const int status = generate.Wait();
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGINT);
  for (int i = 0; i < 3000 && !gone; ++i) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_TRUE(gone);
}

TEST(TriremeProgram, PrintsWhatABenchmarkHasSoFarAtCtrlC) {
  ScriptedServer server([](int call, grpc::ServerContext* context, Writer* writer) {
    return call == 0 ? SayHello(call, context, writer) : SayHelloAndHang(call, context, writer);
  });
  Program bench({"bench", "serve", "--concurrency", "2", "--warmup", "0", "--target", server.target()});
  for (int i = 0; i < 3000 && server.requests().size() < 3; ++i) absl::SleepFor(absl::Milliseconds(10));
  bench.Signal(SIGINT);
  EXPECT_THAT(bench.ReadOutputUntil("Throughput"),
              HasSubstr("3 sent: 1 finished, 0 failed, 2 interrupted (the run was "));
  EXPECT_EQ(bench.Wait(), 0);
}

}  // namespace
}  // namespace trireme::client
