#include "server/server_options.h"

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/logging_flags.h"
#include "sharding/model.h"

namespace trireme::server {
namespace {

// So far beyond use that only a slip of the hand asks for more; memory for steps grows with both.
constexpr std::uint32_t kMaxNumSeqs = 4096;
constexpr std::uint32_t kMaxNumBatchedTokens = 65536;
constexpr std::uint32_t kMaxQueuedRequests = 1u << 20;
constexpr std::uint32_t kMaxGroupRestarts = 1000;

absl::Status ParseDevice(std::string_view text) {
  if (text == "cpu") return absl::OkStatus();
  if (text == "cuda") return absl::InvalidArgumentError("this version serves on \"cpu\" only, not yet on \"cuda\"");
  return absl::InvalidArgumentError(absl::StrCat("expected cpu, got \"", std::string(text), "\""));
}

absl::Status ParseDType(std::string_view text, DTypeChoice& dtype) {
  if (text == "auto") {
    dtype = DTypeChoice::kAuto;
  } else if (text == "float32") {
    dtype = DTypeChoice::kFloat32;
  } else if (text == "bfloat16") {
    dtype = DTypeChoice::kBFloat16;
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("expected auto, float32 or bfloat16, got \"", std::string(text), "\""));
  }
  return absl::OkStatus();
}

absl::Status ParseStretch(std::string_view text, std::optional<double>& stretch) {
  double value = 0;
  if (text != "off" && (!ParseFlagValue(text, &value).ok() || value < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a number of at least 1, or off, got \"", std::string(text), "\""));
  }
  stretch = text == "off" ? std::nullopt : std::optional<double>(value);
  return absl::OkStatus();
}

absl::Status ParseOnOff(std::string_view text, bool& value) {
  if (text != "on" && text != "off") {
    return absl::InvalidArgumentError(absl::StrCat("expected on or off, got \"", std::string(text), "\""));
  }
  value = text == "on";
  return absl::OkStatus();
}

absl::Status ParseMetricsNames(std::string_view text, bool& has_vllm_metrics) {
  if (text != "trireme" && text != "vllm") {
    return absl::InvalidArgumentError(absl::StrCat("expected trireme or vllm, got \"", std::string(text), "\""));
  }
  has_vllm_metrics = text == "vllm";
  return absl::OkStatus();
}

// gRPC takes a port modulo 65536 without a word.
absl::Status ParseAddress(std::string_view text, std::string& address) {
  const std::size_t colon = text.rfind(':');
  std::uint32_t port = 0;
  const bool has_port = colon != std::string_view::npos && absl::SimpleAtoi(std::string(text.substr(colon + 1)), &port);
  if (!has_port || colon == 0 || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected HOST:PORT with a port from 0 to 65535, got \"", std::string(text), "\""));
  }
  address = std::string(text);
  return absl::OkStatus();
}

void AddModelFlags(ServerOptions& options, FlagParser& flags) {
  flags.AddRequired("model", "PATH", "checkpoint: a Hugging Face folder, or a .gguf file", &options.model);
  flags.AddInRange<std::uint32_t>("tp-degree", "N", "worker processes that share the model", 1, sharding::kMaxTpDegree,
                                  &options.tp_degree);
  flags.AddParsed("device", "NAME", "what the workers compute on: cpu", ParseDevice, "cpu");
  flags.AddParsed(
      "dtype", "NAME", "auto (bfloat16 where the CPU has AMX or AVX512_BF16, else float32), float32, bfloat16",
      [&options](std::string_view text) { return ParseDType(text, options.dtype); }, "auto");
  flags.Add("plan", "FILE", "tensor-parallel rules (JSON) over the model family's own", &options.plan);
}

void AddAddressFlags(ServerOptions& options, FlagParser& flags) {
  flags.AddParsed(
      "listen", "HOST:PORT", "where to serve gRPC; port 0 takes a free one",
      [&options](std::string_view text) { return ParseAddress(text, options.listen); }, options.listen);
  flags.AddParsed(
      "metrics-listen", "HOST:PORT", "where to serve Prometheus metrics; empty for nowhere",
      [&options](std::string_view text) {
        if (!text.empty()) return ParseAddress(text, options.metrics_listen);
        options.metrics_listen.clear();
        return absl::OkStatus();
      },
      options.metrics_listen);
  flags.AddParsed(
      "metrics-names", "NAMES", "trireme, or vllm for vLLM's names and labels beside them",
      [&options](std::string_view text) { return ParseMetricsNames(text, options.has_vllm_metrics); }, "trireme");
  flags.AddParsed(
      "reflection", "on|off", "whether gRPC server reflection is served",
      [&options](std::string_view text) { return ParseOnOff(text, options.has_reflection); }, "on");
}

void AddSchedulingFlags(ServerOptions& options, FlagParser& flags) {
  flags.AddInRange<std::uint32_t>("max-num-seqs", "N", "sequences that run at a time", 1, kMaxNumSeqs,
                                  &options.max_num_seqs);
  flags.AddInRange<std::uint32_t>("max-num-batched-tokens", "N", "tokens computed in one step, at least max-num-seqs",
                                  1, kMaxNumBatchedTokens, &options.max_num_batched_tokens);
  flags.AddParsed(
      "max-step-stretch", "FACTOR",
      "how many times longer prompts may make a step in which others get their next token (1: as little as can be); "
      "off",
      [&options](std::string_view text) { return ParseStretch(text, options.max_step_stretch); }, "2");
  flags.AddInRange<std::uint32_t>("max-queued-requests", "N",
                                  "sequences that may wait to be run; beyond, RESOURCE_EXHAUSTED", 1,
                                  kMaxQueuedRequests, &options.max_queued_requests);
  flags.AddParsed(
      "prefix-caching", "on|off", "whether what requests begin with in common is computed once for all of them",
      [&options](std::string_view text) { return ParseOnOff(text, options.has_prefix_caching); }, "on");
}

void AddSecurityFlags(ServerOptions& options, FlagParser& flags) {
  flags.BeginGroup("Security (the files are read again when they change)");
  flags.Add("tls-cert", "FILE", "serve gRPC over TLS: certificate chain (PEM)", &options.security.tls_certificate);
  flags.Add("tls-key", "FILE", "its private key (PEM, not encrypted)", &options.security.tls_key);
  flags.Add("tls-client-ca", "FILE", "clients must show a certificate of these authorities (PEM)",
            &options.security.tls_client_ca);
  flags.Add("auth-tokens", "FILE", "clients must send one of these bearer tokens, but for health checks; one a line",
            &options.security.auth_tokens);
  flags.AddSwitch("hardened", "no reflection; no paths, hosts or causes of faults in what clients are told",
                  &options.is_hardened);
}

}  // namespace

FlagParser ServerFlags(ServerOptions& options) {
  FlagParser flags("trireme-server", "Serves one checkpoint over gRPC, with tensor parallelism.");
  AddModelFlags(options, flags);
  AddAddressFlags(options, flags);
  flags.Add("max-model-len", "TOKENS",
            "prompt and output together at most; default: what the model was made for, or less where the KV cache "
            "holds less",
            &options.max_model_len);
  flags.Add(
      "kv-cache-memory", "BYTES",
      "for keys and values, on each rank (512MiB, 2GiB); default: 1GiB over all ranks, or less where less is enough",
      &options.kv_cache_memory);
  AddSchedulingFlags(options, flags);
  flags.AddInRange<std::uint32_t>(
      "max-group-restarts", "N",
      "times in ten minutes that lost workers are started again; one more loss ends the server. Losses that a request "
      "was found to be to blame for, by the second, do not count",
      1, kMaxGroupRestarts, &options.max_group_restarts);
  flags.Add("drain-timeout", "DURATION", "how long running requests may go on after SIGTERM", &options.drain_timeout);
  flags.AddParsed("worker-binary", "PATH", "trireme-worker; default: beside this program",
                  [&options](std::string_view text) {
                    options.worker_binary = std::string(text);
                    return absl::OkStatus();
                  });
  AddLogFlags(flags, &options.log_format, &options.log_level);
  AddSecurityFlags(options, flags);
  return flags;
}

}  // namespace trireme::server
