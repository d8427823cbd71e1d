#include "client/channel.h"

#include <grpcpp/support/client_interceptor.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace trireme::client {
namespace {

using grpc::experimental::ClientInterceptorFactoryInterface;
using grpc::experimental::ClientRpcInfo;
using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;

// Adds the token to each call. gRPC's own way (call credentials) is closed to channels without TLS.
class TokenSender final : public Interceptor {
 public:
  explicit TokenSender(std::string value) : value_(std::move(value)) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace("authorization", value_);
    }
    methods->Proceed();
  }

 private:
  const std::string value_;
};

class TokenSenderFactory final : public ClientInterceptorFactoryInterface {
 public:
  explicit TokenSenderFactory(const std::string& token) : value_(absl::StrCat("Bearer ", token)) {}

  Interceptor* CreateClientInterceptor(ClientRpcInfo*) override { return new TokenSender(value_); }  // gRPC's to delete

 private:
  const std::string value_;
};

grpc::ChannelArguments ArgumentsFor(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(options.max_message_bytes);
  arguments.SetMaxSendMessageSize(options.max_message_bytes);
  // A peer that is gone without a word is noticed during long silences. Not more often than servers allow.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 30000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
  // Retries are made by InferenceClient, so the channel need not hold them back.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  if (options.tls && !options.tls->server_name.empty()) arguments.SetSslTargetNameOverride(options.tls->server_name);
  return arguments;
}

std::shared_ptr<grpc::ChannelCredentials> CredentialsFor(const ClientOptions& options) {
  if (!options.tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions ssl;
  ssl.pem_root_certs = options.tls->root_certificates;
  ssl.pem_cert_chain = options.tls->certificate_chain;
  ssl.pem_private_key = options.tls->private_key;
  return grpc::SslCredentials(ssl);
}

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const ClientOptions& options) {
  std::vector<std::unique_ptr<ClientInterceptorFactoryInterface>> interceptors;
  if (!options.auth_token.empty()) interceptors.push_back(std::make_unique<TokenSenderFactory>(options.auth_token));
  return grpc::experimental::CreateCustomChannelWithInterceptors(options.target, CredentialsFor(options),
                                                                 ArgumentsFor(options), std::move(interceptors));
}

}  // namespace trireme::client
