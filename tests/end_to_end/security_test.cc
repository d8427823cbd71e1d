// What must not come out of a running server, and who must not get in its way.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "tests/end_to_end/server_process.h"
#include "tests/server/metrics/scrape.h"
#include "tests/support/certificates.h"
#include "trireme/worker/v1/control.grpc.pb.h"

namespace trireme::end_to_end {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kModel[] = TRIREME_FIXTURES "/hf/text_llama";
constexpr char kSecretWord[] = "quartzxylophone";

void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
}

v1::GenerateRequest RequestFor(const std::string& text, std::uint32_t num_tokens) {
  v1::GenerateRequest request;
  request.set_text(text);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_max_tokens(num_tokens);
  request.mutable_stopping()->set_ignore_eos(true);
  return request;
}

struct Answer {
  grpc::Status status;
  std::vector<std::uint32_t> token_ids;
};

Answer Generate(ServerProcess& server, const v1::GenerateRequest& request) {
  grpc::ClientContext context;
  SetDeadline(context);
  const auto reader = server.stub().Generate(&context, request);
  Answer answer;
  for (v1::GenerateResponse response; reader->Read(&response);) {
    answer.token_ids.insert(answer.token_ids.end(), response.chunk().token_ids().begin(),
                            response.chunk().token_ids().end());
  }
  answer.status = reader->Finish();
  return answer;
}

// The server's runtime directory, so that the control socket can be found.
class WithControlSocket {
 public:
  WithControlSocket() { setenv("XDG_RUNTIME_DIR", folder_.File("").c_str(), 1); }
  ~WithControlSocket() { unsetenv("XDG_RUNTIME_DIR"); }

  // Waits for it.
  std::string path() const {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (absl::Now() < deadline) {
      std::error_code error;
      for (const auto& entry : std::filesystem::directory_iterator(folder_.File(""), error)) {
        if (const auto socket = entry.path() / "control"; std::filesystem::exists(socket)) return socket;
      }
      absl::SleepFor(absl::Milliseconds(1));
    }
    ADD_FAILURE() << "no control socket";
    return "";
  }

 private:
  const TestFolder folder_;
};

// A process of the same user that does what it can to the control socket, until it is destroyed.
class Impostor {
 public:
  explicit Impostor(std::string socket) : socket_(std::move(socket)), thread_([this] { Run(); }) {}
  ~Impostor() {
    is_stopped_ = true;
    thread_.join();
    for (const int connection : silent_) close(connection);
    EXPECT_GT(num_rounds_, 0);
  }

 private:
  void Run() {
    while (!is_stopped_) {
      SayHello("guess");
      if (num_rounds_ % 16 == 0) SayHello(std::string(65 << 20, 'x'));
      if (silent_streams_.size() < 100) SayNothing();
      WriteGarbage();
      ++num_rounds_;
    }
    for (auto& context : silent_contexts_) context->TryCancel();
    for (auto& stream : silent_streams_) EXPECT_FALSE(stream->Finish().ok());
  }

  std::unique_ptr<worker::v1::WorkerControlService::Stub> NewStub() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxSendMessageSize(-1);
    return worker::v1::WorkerControlService::NewStub(
        grpc::CreateCustomChannel("unix:" + socket_, grpc::InsecureChannelCredentials(), arguments));
  }

  void SayHello(const std::string& token) {
    grpc::ClientContext context;
    SetDeadline(context);
    const auto stub = NewStub();
    const auto stream = stub->Connect(&context);
    worker::v1::ConnectRequest message;
    message.mutable_hello()->set_spawn_token(token);
    stream->Write(message);
    worker::v1::ConnectResponse response;
    EXPECT_FALSE(stream->Read(&response));
    EXPECT_FALSE(stream->Finish().ok());
  }

  void SayNothing() {
    silent_contexts_.push_back(std::make_unique<grpc::ClientContext>());
    silent_streams_.push_back(NewStub()->Connect(silent_contexts_.back().get()));
  }

  void WriteGarbage() {
    const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un name = {};
    name.sun_family = AF_UNIX;
    socket_.copy(name.sun_path, sizeof(name.sun_path) - 1);
    if (connect(connection, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0) {
      const std::string garbage(1000, '\xff');
      [[maybe_unused]] const ssize_t sent = send(connection, garbage.data(), garbage.size(), MSG_NOSIGNAL);
    }
    if (silent_.size() < 200) {
      silent_.push_back(connection);
    } else {
      close(connection);
    }
  }

  const std::string socket_;
  std::atomic<bool> is_stopped_ = false;
  int num_rounds_ = 0;
  std::vector<int> silent_;
  std::vector<std::unique_ptr<grpc::ClientContext>> silent_contexts_;
  std::vector<std::unique_ptr<grpc::ClientReaderWriter<worker::v1::ConnectRequest, worker::v1::ConnectResponse>>>
      silent_streams_;
  std::thread thread_;
};

TEST(ControlSocket, ImpostorsHoldUpNeitherStartNorStreams) {
  const WithControlSocket runtime;
  ServerProcess server(kModel, {"--tp-degree", "2"});
  const Impostor impostor(runtime.path());
  ASSERT_TRUE(server.BecomesServing());
  const Answer first = Generate(server, RequestFor("The capital", 100));
  EXPECT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_EQ(first.token_ids.size(), 100u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Generate(server, RequestFor("The capital", 100)).token_ids, first.token_ids);
  EXPECT_EQ(server.ServerInfo().group_generation(), 1u);
}

TEST(ControlSocket, SecretsAreOnNoCommandLine) {
  ServerProcess server(kModel);
  ASSERT_TRUE(server.BecomesServing());
  const std::string process = absl::StrCat("/proc/", server.ServerInfo().ranks(0).pid());
  std::optional<std::string> secret;
  for (const std::string& variable : std::vector<std::string>(absl::StrSplit(ReadAll(process + "/environ"), '\0'))) {
    constexpr std::string_view kName = "TRIREME_SPAWN_TOKEN=";
    if (variable.starts_with(kName)) secret = variable.substr(kName.size());
  }
  ASSERT_TRUE(secret.has_value());
  EXPECT_GE(secret->size(), 64u) << "256 bits in hexadecimal";
  EXPECT_THAT(ReadAll(process + "/cmdline"), Not(HasSubstr(*secret)));
  EXPECT_THAT(server.log(), Not(HasSubstr(*secret)));
}

TEST(Privacy, NoTextOfRequestsIsLoggedOrMeasured) {
  ServerProcess server(kModel);
  ASSERT_TRUE(server.BecomesServing());
  v1::GenerateRequest request = RequestFor(absl::StrCat("the ", kSecretWord, " sings"), 20);
  EXPECT_TRUE(Generate(server, request).status.ok());
  request.mutable_sampling()->set_temperature(-1);
  EXPECT_EQ(Generate(server, request).status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  request = RequestFor("", 5);
  v1::ChatMessage& message = *request.mutable_chat()->add_messages();
  message.set_role(kSecretWord);
  message.set_content(kSecretWord);
  Generate(server, request);
  std::string long_text;
  for (int i = 0; i < 5000; ++i) long_text += kSecretWord;
  EXPECT_FALSE(Generate(server, RequestFor(long_text, 5)).status.ok());
  std::thread cut_off([&] { Generate(server, RequestFor(absl::StrCat("more ", kSecretWord), 900)); });
  kill(static_cast<pid_t>(server.ServerInfo().ranks(0).pid()), SIGKILL);
  cut_off.join();
  ASSERT_TRUE(server.BecomesServing(2));
  const server::Scrape metrics(server.metrics_port());
  for (const auto& [series, value] : metrics.series()) {
    EXPECT_THAT(series, Not(HasSubstr(kSecretWord)));
  }
  server.Signal(SIGTERM);
  EXPECT_EQ(server.WaitForExit(), 0);
  EXPECT_THAT(server.log(), Not(HasSubstr("xylophone")));
}

TEST(Tokens, CallsWithoutAGoodOneAreCounted) {
  const TestFolder folder;
  ServerProcess server(kModel, {"--auth-tokens", folder.Write("tokens", "first-token-0123456789")});
  ASSERT_TRUE(server.BecomesServing());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Generate(server, RequestFor("a", 1)).status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  }
  const server::Scrape metrics(server.metrics_port());
  EXPECT_EQ(metrics["trireme_requests_refused_total{code=\"unauthenticated\"}"], 3);
  EXPECT_EQ(metrics["trireme_requests_accepted_total"], 0);
}

TEST(HardenedServer, HasNoReflectionAndNamesNoHost) {
  ServerProcess server(kModel, {"--hardened"});
  ASSERT_TRUE(server.BecomesServing());
  const v1::GetServerInfoResponse info = server.ServerInfo();
  EXPECT_EQ(info.ranks(0).host(), "");
  EXPECT_EQ(info.ranks(0).pid(), 0);
  EXPECT_EQ(info.state(), v1::SERVER_STATE_SERVING);
  EXPECT_EQ(Generate(server, RequestFor("The capital", 5)).token_ids.size(), 5u);
}

TEST(Server, RefusesToStartWithFilesThatAreNoGood) {
  const TestFolder folder;
  const std::string bad = folder.Write("tokens", "short");
  ServerProcess server(kModel, {"--auth-tokens", bad});
  const std::optional<int> status = server.WaitForExit();
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(WEXITSTATUS(*status), 1);
  EXPECT_THAT(server.log(), HasSubstr(absl::StrCat(bad, ", line 1")));
}

}  // namespace
}  // namespace trireme::end_to_end
