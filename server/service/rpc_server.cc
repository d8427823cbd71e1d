#include "server/service/rpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/server_builder_plugin.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/service/hardening.h"

namespace trireme::server {
namespace {

// Merely linking gRPC's reflection library turns it on for every server of the process. This takes it off one again.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    std::erase_if(*plugins, [](const auto& plugin) { return plugin->name() == "proto_server_reflection"; });
  }
};

void SetChannelArguments(grpc::ServerBuilder& builder) {
  // A second server on the same port must fail, not share the port's clients.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Without it HTTP/2 knows no bound, and each stream takes memory before a handler sees it.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  // Whoever connects and does not finish the greeting, TLS or HTTP/2, is let go after this.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 20'000);
  // Clients ping every 10 s (vLLM's and SGLang's do), some more often, also between calls; gRPC's default answers that
  // with GOAWAY. Far below what they do, for pings that were held up on their way arrive close together.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // A client that vanished without closing its connection gives its requests' memory back after this.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const RpcServerOptions& options,
                                                            const std::vector<grpc::Service*>& services) {
  if (options.has_reflection) grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  if (!options.has_reflection) builder.SetOption(std::make_unique<WithoutReflection>());
  SetChannelArguments(builder);
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  int port = 0;
  const auto credentials = options.credentials != nullptr ? options.credentials : grpc::InsecureServerCredentials();
  builder.AddListeningPort(options.listen, credentials, &port);
  if (options.hides_internals) HideInternalsInErrors(builder);
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("gRPC: cannot listen on ", options.listen, ": is it taken, or no address of this host?"));
  }
  return std::unique_ptr<RpcServer>(new RpcServer(credentials, std::move(server), port));
}

RpcServer::~RpcServer() { Shutdown(absl::Now()); }

void RpcServer::Shutdown(absl::Time deadline) { server_->Shutdown(absl::ToChronoTime(deadline)); }

}  // namespace trireme::server
