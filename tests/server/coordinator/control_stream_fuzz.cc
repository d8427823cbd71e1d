// What somebody who knows no spawn token sends to the control socket: nobody is let in, nothing is taken from it, and
// the stream ends with a status that says why.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "server/coordinator/control_host.h"
#include "server/coordinator/roster.h"
#include "tests/support/fuzz_target.h"

namespace trireme::server {
namespace {

class NobodyIsAdmitted final : public ControlEvents {
 public:
  NobodyIsAdmitted() { roster_.Expect(1, {MakeSpawnToken(), MakeSpawnToken()}); }

  absl::StatusOr<PeerId> OnHello(const worker::v1::Hello& hello, std::shared_ptr<ControlStream>) override {
    const absl::StatusOr<PeerId> peer = roster_.Admit(hello.spawn_token());
    CHECK(!peer.ok());
    return peer.status();
  }
  void OnMessage(PeerId, worker::v1::ConnectRequest) override { CHECK(false) << " a stranger's message"; }
  void OnEnd(PeerId) override { CHECK(false) << " the end of a rank that never was"; }

 private:
  Roster roster_;
};

// Each message after a byte that gives its size, or goes to the end where fewer bytes are left.
std::vector<std::string_view> Messages(std::string_view bytes) {
  std::vector<std::string_view> messages;
  while (!bytes.empty()) {
    const std::size_t size = static_cast<unsigned char>(bytes.front());
    messages.push_back(bytes.substr(1, size));
    bytes.remove_prefix(1 + messages.back().size());
  }
  return messages;
}

// One process's connection to the host; its streams come one after another.
class Impostor {
 public:
  explicit Impostor(const std::string& address)
      : stub_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())) {}

  grpc::Status Send(const std::vector<std::string_view>& messages) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    const auto stream = stub_.PrepareCall(&context, "/trireme.worker.v1.WorkerControlService/Connect", &queue_);
    stream->StartCall(this);
    bool is_open = Await();
    for (auto message = messages.begin(); is_open && message != messages.end(); ++message) {
      grpc::Slice slice(message->data(), message->size());
      stream->Write(grpc::ByteBuffer(&slice, 1), this);
      is_open = Await();
    }
    if (is_open) {
      stream->WritesDone(this);
      Await();
    }
    grpc::Status status;
    stream->Finish(&status, this);
    CHECK(Await());
    return status;
  }

 private:
  bool Await() {
    void* tag = nullptr;
    bool ok = false;
    CHECK(queue_.Next(&tag, &ok));
    return ok;
  }

  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
};

std::unique_ptr<ControlHost> StartHost() {
  absl::StatusOr<std::unique_ptr<ControlHost>> host = ControlHost::Start(new NobodyIsAdmitted);
  CHECK_OK(host.status());
  return *std::move(host);
}

bool IsExpected(grpc::StatusCode code, std::size_t num_messages) {
  switch (code) {
    case grpc::StatusCode::OK:
      return num_messages == 0;
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::PERMISSION_DENIED:
      return num_messages > 0;
    default:
      return false;
  }
}

void Exercise(std::string_view bytes) {
  static const ControlHost* const host = StartHost().release();
  static Impostor* const impostor = new Impostor(host->address());
  const std::vector<std::string_view> messages = Messages(bytes);
  const grpc::Status status = impostor->Send(messages);
  CHECK(IsExpected(status.error_code(), messages.size()))
      << " " << status.error_code() << " " << status.error_message();
}

}  // namespace
}  // namespace trireme::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::server::Exercise({reinterpret_cast<const char*>(data), size});
  return 0;
}
