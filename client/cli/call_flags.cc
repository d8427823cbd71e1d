#include "client/cli/call_flags.h"

#include "absl/time/clock.h"

namespace trireme::client {

void TargetFlags::Declare(FlagParser& flags) {
  flags.Add("target", "ADDR", "the server: host:port, or unix:path", &target);
  flags.Add("timeout", "TIME", "give up after this much time, such as 30s", &timeout);
}

ClientOptions TargetFlags::client_options() const {
  ClientOptions options;
  options.target = target;
  return options;
}

CallOptions TargetFlags::call_options() const {
  CallOptions call;
  if (timeout.has_value()) call.deadline = absl::Now() + *timeout;
  return call;
}

void GenerateFlags::Declare(FlagParser& flags) {
  flags.Add("max-tokens", "N", "tokens to generate at most", &max_tokens);
  flags.Add("temperature", "T", "0 takes the likeliest token each time", &temperature);
  flags.Add("top-k", "K", "choose among the K likeliest tokens; 0: among all", &top_k);
  flags.Add("top-p", "P", "choose among the likeliest tokens of this total probability", &top_p);
  flags.Add("seed", "N", "the same seed gives the same text", &seed);
  flags.AddSwitch("ignore-eos", "go on after the end of sequence", &ignore_eos);
}

void GenerateFlags::Fill(v1::GenerateRequest& request) const {
  if (max_tokens.has_value()) request.mutable_stopping()->set_max_tokens(*max_tokens);
  if (ignore_eos) request.mutable_stopping()->set_ignore_eos(true);
  if (temperature.has_value()) request.mutable_sampling()->set_temperature(*temperature);
  if (top_k.has_value()) request.mutable_sampling()->set_top_k(*top_k);
  if (top_p.has_value()) request.mutable_sampling()->set_top_p(*top_p);
  if (seed.has_value()) request.mutable_sampling()->set_seed(*seed);
}

}  // namespace trireme::client
