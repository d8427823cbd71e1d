#include "client/bench/serve_report.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/flags.h"
#include "base/version.h"
#include "client/bench/latency_table.h"

namespace trireme::client {
namespace {

using Json = nlohmann::ordered_json;

// ---- For people.

std::string ShowPace(const LoadOptions& load) {
  if (!load.arrivals) return absl::StrCat("closed loop, ", load.concurrency, " at a time");
  if (std::isinf(load.arrivals->requests_per_second)) return "open loop, all at once";
  const std::string rate = absl::StrCat("open loop, ", load.arrivals->requests_per_second, " requests/s, ");
  return load.arrivals->burstiness == 1
             ? rate + "Poisson arrivals"
             : absl::StrCat(rate, "gamma arrivals of burstiness ", load.arrivals->burstiness);
}

std::string ShowWorkload(const ServeOptions& options) {
  const WorkloadOptions& workload = options.workload;
  const std::string prompts = options.prompts_file.empty()
                                  ? absl::StrCat("random prompts of ", FormatFlagValue(workload.input_len), " tokens")
                                  : absl::StrCat("prompts from ", options.prompts_file);
  return absl::StrCat(prompts, ", outputs of ", FormatFlagValue(workload.output_len),
                      workload.ignore_eos ? " tokens, " : " tokens at most, ", workload.stream ? "" : "not streamed, ",
                      "temperature ", workload.temperature, ", seed ", workload.seed);
}

std::string ShowCounts(const LoadReport& report) {
  std::string text = absl::StrCat(report.sent, " sent: ", report.finished, " finished, ", report.failed, " failed");
  if (report.cancelled > 0) absl::StrAppend(&text, ", ", report.cancelled, " cancelled as planned");
  if (report.interrupted > 0) absl::StrAppend(&text, ", ", report.interrupted, " interrupted");
  return text;
}

std::string ShowThroughput(const LoadReport& report) {
  return absl::StrFormat("%.2f requests/s, %.1f output tokens/s, %.1f tokens/s with the prompts'",
                         report.PerSecond(report.finished), report.PerSecond(report.output_tokens),
                         report.PerSecond(report.prompt_tokens + report.output_tokens));
}

std::string ShowGood(const ServeResult& result) {
  return absl::StrFormat("%.2f requests/s, %.1f %% of the requests (%s, in ms)",
                         result.report.PerSecond(*result.report.good), 100 * result.report.GoodShare(),
                         FormatFlagValue(*result.options.service_level));
}

std::string ShowErrors(const LoadReport& report) {
  std::string text;
  for (const ErrorCount& error : report.errors) {
    absl::StrAppend(&text, "Error        ", absl::StatusCodeToString(error.code), ", ", error.count,
                    error.count == 1 ? " time: " : " times, first: ", error.first_message, "\n");
  }
  return text;
}

// ---- JSON.

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

Json InSeconds(absl::Duration duration) {
  return duration == absl::InfiniteDuration() ? Json(nullptr) : Json(absl::ToDoubleSeconds(duration));
}

Json RateJson(const LoadOptions& load) {
  if (!load.arrivals) return nullptr;
  const double rate = load.arrivals->requests_per_second;
  return std::isinf(rate) ? Json("inf") : Json(rate);
}

Json WorkloadJson(const ServeOptions& options) {
  const WorkloadOptions& workload = options.workload;
  const LoadOptions& load = options.load;
  return {{"loop", load.arrivals ? "open" : "closed"},
          {"request_rate", RateJson(load)},
          {"burstiness", load.arrivals ? Json(load.arrivals->burstiness) : Json(nullptr)},
          {"concurrency", load.arrivals ? Json(nullptr) : Json(load.concurrency)},
          {"num_requests", OrNull(load.num_requests)},
          {"duration_s", InSeconds(load.duration)},
          {"prompts", options.prompts_file.empty() ? Json(nullptr) : Json(options.prompts_file)},
          {"input_len", options.prompts_file.empty() ? Json(FormatFlagValue(workload.input_len)) : Json(nullptr)},
          {"output_len", FormatFlagValue(workload.output_len)},
          {"seed", workload.seed},
          {"temperature", workload.temperature},
          {"ignore_eos", workload.ignore_eos},
          {"stream", workload.stream},
          {"cancel_share", workload.cancel_share},
          {"timeout_s", InSeconds(load.timeout)},
          {"warmup", options.warmup}};
}

Json GoodputJson(const ServeResult& result) {
  if (!result.report.good.has_value()) return nullptr;
  return {{"service_level", FormatFlagValue(*result.options.service_level)},
          {"requests", *result.report.good},
          {"requests_per_s", result.report.PerSecond(*result.report.good)},
          {"share", result.report.GoodShare()}};
}

Json ErrorsJson(const LoadReport& report) {
  Json errors = Json::array();
  for (const ErrorCount& error : report.errors) {
    errors.push_back({{"code", absl::StatusCodeToString(error.code)},
                      {"count", error.count},
                      {"first_message", error.first_message}});
  }
  return errors;
}

Json ReportJson(const LoadReport& report) {
  return {{"elapsed_s", absl::ToDoubleSeconds(report.elapsed)},
          {"requests",
           {{"sent", report.sent},
            {"finished", report.finished},
            {"failed", report.failed},
            {"cancelled", report.cancelled},
            {"interrupted", report.interrupted}}},
          {"tokens",
           {{"prompt", report.prompt_tokens}, {"cached", report.cached_tokens}, {"output", report.output_tokens}}},
          {"throughput",
           {{"requests_per_s", report.PerSecond(report.finished)},
            {"output_tokens_per_s", report.PerSecond(report.output_tokens)},
            {"total_tokens_per_s", report.PerSecond(report.prompt_tokens + report.output_tokens)}}},
          {"latency_ms",
           {{"ttft", SummaryJson(report.ttft)},
            {"itl", SummaryJson(report.itl)},
            {"tpot", SummaryJson(report.tpot)},
            {"e2e", SummaryJson(report.e2e)}}},
          {"send_lag_ms", SummaryJson(report.send_lag)}};
}

}  // namespace

std::string ShowServeResult(const ServeResult& result) {
  const LoadReport& report = result.report;
  std::string text =
      absl::StrCat("Server       ", ShowTarget(result.target), "\nLoad         ", ShowPace(result.options.load),
                   "\nWorkload     ", ShowWorkload(result.options), "\nRequests     ", ShowCounts(report),
                   result.is_interrupted ? " (the run was interrupted)" : "", "\nTime         ",
                   absl::StrFormat("%.2f s", absl::ToDoubleSeconds(report.elapsed)), "\nThroughput   ",
                   ShowThroughput(report), "\n");
  if (report.good.has_value()) absl::StrAppend(&text, "Goodput      ", ShowGood(result), "\n");
  absl::StrAppend(&text, ShowErrors(report), "\n",
                  ShowLatencies({{"Time to first token", report.ttft},
                                 {"Between tokens", report.itl},
                                 {"Per output token", report.tpot},
                                 {"End to end", report.e2e},
                                 {"Client's lag", report.send_lag}}),
                  "Of finished requests, from when each was due: ",
                  result.options.load.arrivals ? "its scheduled arrival" : "the end of the one before it", ".\n");
  return text;
}

std::string ServeResultJson(const ServeResult& result) {
  Json json = {{"benchmark", "serve"},
               {"client_build_id", std::string(BuildId())},
               {"server", TargetJson(result.target)},
               {"workload", WorkloadJson(result.options)},
               {"interrupted", result.is_interrupted}};
  json.update(ReportJson(result.report));
  json["goodput"] = GoodputJson(result);
  json["errors"] = ErrorsJson(result.report);
  // A server's message need not be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace trireme::client
