// The service on a real gRPC server over loopback, with the real engine and a fake worker group.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "base/mutex.h"
#include "server/engine/engine.h"
#include "server/metrics/request_metrics.h"
#include "server/service/health_service.h"
#include "server/service/inference_service.h"
#include "server/service/rpc_server.h"
#include "tests/server/service/test_model.h"
#include "tests/support/fake_worker_group.h"
#include "trireme/v1/inference.grpc.pb.h"

namespace trireme::server {

// All that one Generate call sent.
struct GenerateResult {
  std::vector<v1::Chunk> chunks;
  std::optional<v1::Complete> complete;
  std::string request_id;
  grpc::Status status;

  std::string ChunkText() const;  // of all chunks
  std::vector<std::uint32_t> ChunkTokenIds() const;
  const v1::Completion& completion() const { return complete.value().completions(0); }
};

// 16 sequences, 4096 blocks of 4 tokens.
FakeGroupOptions TestGroup(absl::Duration step_time = absl::ZeroDuration());

struct TestServerOptions {
  ServedModel model = TextTestModel();
  ServiceLimits limits = {};
  FakeGroupOptions group = TestGroup();
  bool has_reflection = true;
  bool is_group_up = true;
  std::shared_ptr<grpc::ServerCredentials> credentials = nullptr;
  bool hides_internals = false;
  ServiceStatistics* statistics = nullptr;  // null: the server's own; outlives it
};

// Thread-safe but for construction and destruction.
class TestServer {
 public:
  explicit TestServer(TestServerOptions options = {});
  ~TestServer();

  std::string target() const;
  std::shared_ptr<grpc::Channel> NewChannel(const grpc::ChannelArguments& arguments = {}) const;
  v1::InferenceService::Stub& stub() { return *stub_; }

  // Runs a call to its end, within 20 seconds unless `context` has a deadline.
  GenerateResult Generate(const v1::GenerateRequest& request, grpc::ClientContext* context = nullptr);

  // Waits until the engine holds a request; false after 10 seconds.
  bool BecomesBusy();

  // Waits until the engine holds neither requests nor blocks; false after 10 seconds.
  bool BecomesIdle();

  GroupStatus group_status();
  void set_group_status(GroupStatus status);

  // Waits until no Generate call is open: its client has heard all, or is taken for gone; false after 10 seconds.
  bool ClosesAllCalls() { return service_->WaitUntilNoneIsOpen(absl::Now() + absl::Seconds(10)); }

  Engine& engine() { return engine_; }
  FakeWorkerGroup& group() { return group_; }
  HealthService& health() { return health_; }
  RequestMetrics& metrics() { return metrics_; }
  const ServedModel& model() const { return options_.model; }

 private:
  const TestServerOptions options_;
  RequestMetrics metrics_;
  FakeWorkerGroup group_;
  Engine engine_;
  HealthService health_;
  Mutex mutex_;
  GroupStatus group_status_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<InferenceService> service_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<v1::InferenceService::Stub> stub_;
};

// Reads a stream to its end.
GenerateResult ReadAll(grpc::ClientReader<v1::GenerateResponse>& reader);

// From protobuf's text format.
v1::GenerateRequest GenerateRequestFrom(const std::string& text_format);

}  // namespace trireme::server
