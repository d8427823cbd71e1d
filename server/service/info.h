// What GetModelInfo, GetServerInfo and GetLoads answer.
#pragma once
#include <string>

#include "absl/time/time.h"
#include "server/coordinator/group_status.h"
#include "server/engine/engine.h"
#include "server/service/limits.h"
#include "server/service/served_model.h"
#include "trireme/v1/info.pb.h"

namespace trireme::server {

v1::GetModelInfoResponse ModelInfo(const ServedModel& model, const ServiceLimits& limits);

v1::GetServerInfoResponse ServerInfo(const GroupStatus& group, const Loads& loads, const std::string& dtype,
                                     absl::Duration uptime);

// `kv_block_tokens` turns the engine's blocks into tokens.
v1::GetLoadsResponse LoadsInfo(const GroupStatus& group, const Loads& loads, std::uint32_t max_num_seqs,
                               std::uint32_t kv_block_tokens);

}  // namespace trireme::server
