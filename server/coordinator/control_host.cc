#include "server/coordinator/control_host.h"

#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "trireme/worker/v1/control.grpc.pb.h"

namespace trireme::server {
namespace {

constexpr char kSocketName[] = "control";
constexpr int kMaxMessageBytes = 64 << 20;
// For whoever connects and does not speak HTTP/2; gRPC's own is two minutes.
constexpr int kHandshakeTimeoutMs = 20'000;
// Streams that are left are cancelled then; the workers' ends are gone already or about to be killed.
constexpr std::chrono::milliseconds kShutdownGrace(200);

}  // namespace

// Raw, so that a step is serialized once for all ranks and a message that cannot be parsed reaches us.
class ControlHost::Service : public worker::v1::WorkerControlService::WithRawCallbackMethod_Connect<
                                 worker::v1::WorkerControlService::Service> {
 public:
  Service(ControlEvents* events, const ControlHostOptions& options) : events_(events), options_(options) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Connect(grpc::CallbackServerContext*) override {
    const std::shared_ptr<ControlStream> stream = ControlStream::Open(events_, options_.hello_timeout);
    if (const std::shared_ptr<ControlStream> oldest = AddStranger(stream)) {
      oldest->CloseStranger({grpc::StatusCode::RESOURCE_EXHAUSTED, "too many streams have said nothing"});
    }
    return stream.get();  // keeps itself until OnDone
  }

 private:
  // Returns the stream that is one too many, if there is one.
  std::shared_ptr<ControlStream> AddStranger(const std::shared_ptr<ControlStream>& stream) {
    MutexLock lock(mutex_);
    std::erase_if(strangers_, [](const std::weak_ptr<ControlStream>& weak) {
      const std::shared_ptr<ControlStream> alive = weak.lock();
      return alive == nullptr || !alive->is_stranger();
    });
    strangers_.push_back(stream);
    if (strangers_.size() <= options_.max_strangers) return nullptr;
    const std::shared_ptr<ControlStream> oldest = strangers_.front().lock();
    strangers_.pop_front();
    return oldest;
  }

  ControlEvents* const events_;
  const ControlHostOptions options_;
  Mutex mutex_;
  std::deque<std::weak_ptr<ControlStream>> strangers_ ABSL_GUARDED_BY(mutex_);  // oldest first
};

absl::StatusOr<std::unique_ptr<ControlHost>> ControlHost::Start(ControlEvents* events, ControlHostOptions options) {
  PrivateDirectory::RemoveAbandoned();
  ASSIGN_OR_RETURN(PrivateDirectory directory, PrivateDirectory::Make(sizeof(kSocketName)));
  std::unique_ptr<ControlHost> host(new ControlHost(std::move(directory), events, options));
  RETURN_IF_ERROR(host->Listen());
  return host;
}

ControlHost::ControlHost(PrivateDirectory directory, ControlEvents* events, const ControlHostOptions& options)
    : directory_(std::move(directory)),
      address_(absl::StrCat("unix:", (directory_.path() / kSocketName).string())),
      service_(std::make_unique<Service>(events, options)) {}

absl::Status ControlHost::Listen() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // see worker/control/control_connection.cc
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return absl::UnavailableError(absl::StrCat("cannot listen on ", address_));
  if (chmod((directory_.path() / kSocketName).c_str(), S_IRUSR | S_IWUSR) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("chmod ", address_));
  }
  return absl::OkStatus();
}

ControlHost::~ControlHost() {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
  server_->Wait();
}

}  // namespace trireme::server
