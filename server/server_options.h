// The flags of trireme-server.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "base/flags.h"
#include "base/logging.h"
#include "server/security/port_credentials.h"

namespace trireme::server {

enum class DTypeChoice { kAuto, kFloat32, kBFloat16 };

struct ServerOptions {
  std::string model;            // checkpoint folder or .gguf file
  std::uint32_t tp_degree = 1;  // worker processes, from 1 to kMaxTpDegree
  DTypeChoice dtype = DTypeChoice::kAuto;
  std::string plan;  // plan file; empty: the family's plan as it is
  std::string listen = "127.0.0.1:8700";
  std::string metrics_listen = "127.0.0.1:8701";  // empty: no metrics
  bool has_vllm_metrics = false;                  // vLLM's names of metrics beside ours
  std::optional<std::uint32_t> max_model_len;     // tokens; absent: as many as model and KV cache take
  std::optional<ByteSize> kv_cache_memory;        // on each rank
  std::uint32_t max_num_seqs = 32;
  std::uint32_t max_num_batched_tokens = 512;
  std::optional<double> max_step_stretch = 2.0;  // see EngineOptions; absent: no bound
  std::uint32_t max_queued_requests = 1024;
  std::uint32_t max_group_restarts = 5;  // see RestartLimits
  bool has_prefix_caching = true;
  LogFormat log_format = LogFormat::kText;
  LogLevel log_level = LogLevel::kInfo;
  bool has_reflection = true;
  PortSecurity security;                // of the gRPC port
  bool is_hardened = false;             // no reflection, and clients learn nothing of paths, hosts and faults
  std::filesystem::path worker_binary;  // empty: beside the server's own
  absl::Duration drain_timeout = absl::Seconds(30);
};

// Declares every flag; `options` outlives the result.
FlagParser ServerFlags(ServerOptions& options);

}  // namespace trireme::server
