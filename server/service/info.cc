#include "server/service/info.h"

#include "base/check.h"
#include "base/duration_message.h"
#include "base/version.h"

namespace trireme::server {
namespace {

v1::ServerState StateOf(const GroupStatus& group, const Loads& loads) {
  if (group.is_given_up) return v1::SERVER_STATE_FAILED;
  if (loads.draining) return v1::SERVER_STATE_DRAINING;
  return loads.group_up ? v1::SERVER_STATE_SERVING : v1::SERVER_STATE_LOADING;
}

v1::RankState ToProto(RankState state) {
  switch (state) {
    case RankState::kStarting:
      return v1::RANK_STATE_STARTING;
    case RankState::kLoading:
      return v1::RANK_STATE_LOADING;
    case RankState::kReady:
      return v1::RANK_STATE_READY;
    case RankState::kLost:
      return v1::RANK_STATE_LOST;
    case RankState::kStopped:
      return v1::RANK_STATE_STOPPED;
  }
  CHECK(false) << " rank state " << static_cast<int>(state);
}

v1::GroupLossKind ToProto(CauseKind kind) {
  switch (kind) {
    case CauseKind::kStreamEnded:
      return v1::GROUP_LOSS_KIND_STREAM_ENDED;
    case CauseKind::kPeerAborted:
      return v1::GROUP_LOSS_KIND_PEER_ABORTED;
    case CauseKind::kExited:
      return v1::GROUP_LOSS_KIND_EXITED;
    case CauseKind::kKilled:
      return v1::GROUP_LOSS_KIND_KILLED;
    case CauseKind::kFailed:
      return v1::GROUP_LOSS_KIND_FAILED;
    case CauseKind::kTimedOut:
      return v1::GROUP_LOSS_KIND_TIMED_OUT;
    case CauseKind::kProtocol:
      return v1::GROUP_LOSS_KIND_PROTOCOL;
    case CauseKind::kNotStarted:
      return v1::GROUP_LOSS_KIND_NOT_STARTED;
  }
  CHECK(false) << " kind of loss " << static_cast<int>(kind);
}

void FillLoss(const GroupLoss& loss, v1::GroupLoss& proto) {
  if (loss.cause.rank) proto.set_rank(static_cast<std::uint32_t>(*loss.cause.rank));
  proto.set_kind(ToProto(loss.cause.kind));
  const timespec time = absl::ToTimespec(loss.time);
  proto.mutable_time()->set_seconds(time.tv_sec);
  proto.mutable_time()->set_nanos(static_cast<std::int32_t>(time.tv_nsec));
}

void FillRank(const RankStatus& rank, v1::RankInfo& proto) {
  proto.set_rank(static_cast<std::uint32_t>(rank.rank));
  proto.set_state(ToProto(rank.state));
  proto.set_host(rank.host);
  proto.set_device(rank.device);
  proto.set_pid(rank.pid);
  proto.set_total_load_bytes(rank.total_bytes);
  proto.set_loaded_bytes(rank.loaded_bytes);
  proto.set_weight_bytes(rank.weight_bytes);
  proto.set_kv_cache_bytes(rank.kv_cache_bytes);
}

void FillSampling(const SamplingDefaults& defaults, v1::SamplingParams& proto) {
  proto.set_temperature(defaults.temperature);
  proto.set_top_k(defaults.top_k);
  proto.set_top_p(defaults.top_p);
  proto.set_min_p(defaults.min_p);
  proto.set_typical_p(defaults.typical_p);
  proto.set_repetition_penalty(defaults.repetition_penalty);
}

void FillLimits(const ServiceLimits& limits, v1::Limits& proto) {
  proto.set_max_stop_strings(limits.max_stop_strings);
  proto.set_max_stop_string_bytes(limits.max_stop_string_bytes);
  proto.set_max_stop_token_ids(limits.max_stop_token_ids);
  proto.set_max_logprobs(limits.max_logprobs);
  proto.set_max_n(limits.max_n);
  proto.set_max_message_bytes(limits.max_message_bytes);
  proto.set_max_text_bytes(limits.max_text_bytes);
  proto.set_max_request_id_bytes(limits.max_request_id_bytes);
  proto.set_max_unread_bytes(limits.max_unread_bytes);
  proto.set_max_bad_words(limits.max_bad_words);
  proto.set_max_bad_word_bytes(limits.max_bad_word_bytes);
  proto.set_max_logit_bias(limits.max_logit_bias);
  proto.set_max_cache_salt_bytes(limits.max_cache_salt_bytes);
  proto.set_chat_message_bytes(limits.chat_message_bytes);
  proto.set_max_detokenize_ids(limits.max_detokenize_ids);
  proto.set_max_abort_ids(limits.max_abort_ids);
  proto.set_max_abort_reason_bytes(limits.max_abort_reason_bytes);
}

}  // namespace

v1::GetModelInfoResponse ModelInfo(const ServedModel& model, const ServiceLimits& limits) {
  v1::GetModelInfoResponse info;
  info.set_model(model.name);
  info.set_model_type(model.model_type);
  info.set_vocab_size(model.vocab_size);
  info.set_max_model_len(model.max_model_len);
  for (const std::uint32_t id : model.eos_token_ids) info.add_eos_token_ids(id);
  if (model.bos_token_id) info.set_bos_token_id(*model.bos_token_id);
  if (model.pad_token_id) info.set_pad_token_id(*model.pad_token_id);
  info.set_has_tokenizer(model.text.tokenizer() != nullptr);
  info.set_has_chat_template(model.text.chat_template() != nullptr);
  FillSampling(model.sampling, *info.mutable_default_sampling());
  FillLimits(limits, *info.mutable_limits());
  info.set_supports_tp_plan(model.supports_tp_plan);
  for (const int degree : model.valid_tp_degrees) info.add_valid_tp_degrees(static_cast<std::uint32_t>(degree));
  return info;
}

v1::GetServerInfoResponse ServerInfo(const GroupStatus& group, const Loads& loads, const std::string& dtype,
                                     absl::Duration uptime) {
  v1::GetServerInfoResponse info;
  info.set_version(std::string(Version()));
  info.set_build_id(std::string(BuildId()));
  info.set_tp_degree(static_cast<std::uint32_t>(group.ranks.size()));
  info.set_dtype(dtype);
  info.set_state(StateOf(group, loads));
  for (const RankStatus& rank : group.ranks) FillRank(rank, *info.add_ranks());
  info.set_group_generation(group.generation);
  info.set_group_restarts(group.num_restarts);
  if (group.last_loss) {
    info.set_last_restart_reason(std::string(group.last_loss->cause.status.message()));
    FillLoss(*group.last_loss, *info.mutable_last_loss());
  }
  *info.mutable_uptime() = ToMessage(absl::Trunc(uptime, absl::Seconds(1)));
  return info;
}

v1::GetLoadsResponse LoadsInfo(const GroupStatus& group, const Loads& loads, std::uint32_t max_num_seqs,
                               std::uint32_t kv_block_tokens) {
  v1::GetLoadsResponse info;
  info.set_running_requests(loads.running_requests);
  info.set_waiting_requests(loads.waiting_requests);
  info.set_running_sequences(loads.running_sequences);
  info.set_waiting_sequences(loads.waiting_sequences);
  info.set_max_running_sequences(max_num_seqs);
  info.set_used_kv_tokens(std::uint64_t{loads.used_kv_blocks} * kv_block_tokens);
  info.set_total_kv_tokens(std::uint64_t{loads.total_kv_blocks} * kv_block_tokens);
  info.set_state(StateOf(group, loads));
  return info;
}

}  // namespace trireme::server
