#include "server/coordinator/control_host.h"

#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trireme/worker/v1/control.grpc.pb.h"

namespace trireme::server {
namespace {

constexpr char kSocketName[] = "control";
constexpr int kMaxMessageBytes = 64 << 20;
// Streams that are left are cancelled then; the workers' ends are gone already or about to be killed.
constexpr std::chrono::milliseconds kShutdownGrace(200);

}  // namespace

// Raw, so that a step is serialized once for all ranks and a message that cannot be parsed reaches us.
class ControlHost::Service : public worker::v1::WorkerControlService::WithRawCallbackMethod_Connect<
                                 worker::v1::WorkerControlService::Service> {
 public:
  explicit Service(ControlEvents* events) : events_(events) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Connect(grpc::CallbackServerContext*) override {
    return ControlStream::Open(events_).get();  // keeps itself until OnDone
  }

 private:
  ControlEvents* const events_;
};

absl::StatusOr<std::unique_ptr<ControlHost>> ControlHost::Start(ControlEvents* events) {
  PrivateDirectory::RemoveAbandoned();
  ASSIGN_OR_RETURN(PrivateDirectory directory, PrivateDirectory::Make(sizeof(kSocketName)));
  std::unique_ptr<ControlHost> host(new ControlHost(std::move(directory), events));
  RETURN_IF_ERROR(host->Listen());
  return host;
}

ControlHost::ControlHost(PrivateDirectory directory, ControlEvents* events)
    : directory_(std::move(directory)),
      address_(absl::StrCat("unix:", (directory_.path() / kSocketName).string())),
      service_(std::make_unique<Service>(events)) {}

absl::Status ControlHost::Listen() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // see worker/control/control_connection.cc
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
