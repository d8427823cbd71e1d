// Everything at once, for a while: more clients than the server runs at a time, cancels, aborts, time limits, expiries,
// slow readers, bad requests, and workers that are killed. $TRIREME_SOAK_SECONDS sets the length; absent, it is the short
// form.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "tests/end_to_end/load.h"
#include "tests/end_to_end/server_process.h"
#include "tests/server/metrics/scrape.h"
#include "tests/support/sanitizers.h"

namespace trireme::end_to_end {
namespace {

constexpr int kNumClients = 24;  // the server runs 16 and queues 6
constexpr unsigned kNumVariants = 48;
constexpr std::array<const char*, 3> kStopStrings = {"the", "qu", "zz"};
constexpr absl::Duration kKillInterval = absl::Seconds(30);
constexpr absl::Duration kShortKillInterval = absl::Seconds(8);

absl::Duration SoakTime() {
  const char* const given = std::getenv("TRIREME_SOAK_SECONDS");
  int seconds = 30;
  EXPECT_TRUE(given == nullptr || absl::SimpleAtoi(given, &seconds)) << "TRIREME_SOAK_SECONDS is " << given;
  return absl::Seconds(seconds);
}

// One of few requests, so that the answer that each gives alone can be asked for afterwards.
v1::GenerateRequest Variant(unsigned variant) {
  v1::GenerateRequest request = SampledRequest(variant, 1 + 5 * variant, 1 + 7 * variant);
  request.set_priority(static_cast<int>(variant % 3));
  if (variant % 4 == 0) request.mutable_sampling()->set_temperature(0);
  if (variant % 5 == 0) request.mutable_output()->set_logprobs(3);
  if (variant % 6 == 1) request.mutable_sampling()->set_n(2);
  if (variant % 7 == 2) *request.mutable_stopping()->mutable_stop() = {kStopStrings.begin(), kStopStrings.end()};
  if (variant % 8 == 3) request.mutable_output()->set_prompt_logprobs(2);
  if (variant % 9 == 4) request.set_cache_salt("salt");
  if (variant % 10 == 5) request.mutable_sampling()->set_repetition_penalty(1.3f);
  if (variant % 11 == 6) request.set_stream(false);
  return request;
}

enum class Manner { kPatient, kCancels, kAborts, kIsHasty, kExpires, kReadsSlowly, kIsWrong };

// All that an answer says which is the same each time.
class Answer {
 public:
  void Add(const v1::GenerateResponse& response) {
    if (response.has_complete()) {
      *message_.mutable_completions() = response.complete().completions();
      message_.set_seed(response.complete().seed());
    }
    for (const v1::TokenLogprob& logprob : response.chunk().logprobs()) *LogprobsOf(response).add_logprobs() = logprob;
    for (const v1::TokenLogprob& logprob : response.chunk().prompt_logprobs()) {
      *LogprobsOf(response).add_prompt_logprobs() = logprob;
    }
  }

  // Ended by its own length, or a stop string, and not by the time at which somebody said so.
  bool IsWhole() const {
    return std::all_of(message_.completions().begin(), message_.completions().end(), [](const v1::Completion& one) {
      return one.finish_reason() == v1::FINISH_REASON_LENGTH || one.finish_reason() == v1::FINISH_REASON_STOP;
    });
  }

  std::string Text() const {
    v1::Complete whole = message_;
    for (const auto& [index, logprobs] : logprobs_) {
      if (index < static_cast<std::uint32_t>(whole.completions_size())) {
        whole.mutable_completions(static_cast<int>(index))->MergeFrom(logprobs);
      }
    }
    return whole.DebugString();
  }

 private:
  v1::Completion& LogprobsOf(const v1::GenerateResponse& response) { return logprobs_[response.chunk().index()]; }

  v1::Complete message_;
  std::map<std::uint32_t, v1::Completion> logprobs_;  // of the chunks, by index; nothing else is set
};

Manner SomeManner(std::mt19937& random) {
  const unsigned dice = random() % 12;
  if (dice < 5) return Manner::kPatient;
  if (dice < 7) return Manner::kCancels;
  if (dice < 8) return Manner::kAborts;
  if (dice < 9) return Manner::kIsHasty;
  if (dice < 10) return Manner::kExpires;
  return dice < 11 ? Manner::kReadsSlowly : Manner::kIsWrong;
}

// Whether the documentation has this end for a call of this manner: a queue may be full and workers may be away for
// anybody; INTERNAL is for a request that is taken for the killer of its workers.
bool IsDocumented(Manner manner, const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      return manner != Manner::kIsWrong;
    case grpc::StatusCode::CANCELLED:
      return manner == Manner::kCancels;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return manner == Manner::kExpires;
    case grpc::StatusCode::INVALID_ARGUMENT:
      return manner == Manner::kIsWrong;
    case grpc::StatusCode::INTERNAL:
      return status.error_details().find("KILLS_WORKERS") != std::string::npos;
    default:
      return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
             status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
  }
}

class Soak {
 public:
  explicit Soak(ServerProcess& server) : server_(server), stub_(server.stub()) {}

  void Run(absl::Duration time, absl::Duration kill_interval) {
    const absl::Time end = absl::Now() + time;
    std::vector<std::thread> clients;
    for (unsigned client = 0; client < kNumClients; ++client) {
      clients.emplace_back([this, client, end] {
        std::mt19937 random(client);
        while (absl::Now() < end) Call(SomeManner(random), random);
      });
    }
    KillWorkersUntil(end, kill_interval);
    for (std::thread& client : clients) client.join();
  }

  // Answers that were finished, by variant, are those that the server gives now that nobody disturbs it.
  void ExpectSoloRuns() {
    MutexLock lock(mutex_);
    for (const auto& [variant, answers] : answers_) {
      grpc::ClientContext context;
      context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(3)));
      const auto reader = stub_.Generate(&context, Variant(variant));
      Answer alone;
      v1::GenerateResponse response;
      while (reader->Read(&response)) alone.Add(response);
      EXPECT_TRUE(reader->Finish().ok());
      for (const std::string& answer : answers) EXPECT_EQ(answer, alone.Text()) << "variant " << variant;
    }
  }

  std::map<grpc::StatusCode, int> ends() {
    MutexLock lock(mutex_);
    return ends_;
  }

  int num_whole_answers() {
    MutexLock lock(mutex_);
    return num_whole_;
  }

  int num_kills() const { return num_kills_; }

 private:
  void Call(Manner manner, std::mt19937& random) {
    const unsigned variant = random() % kNumVariants;
    v1::GenerateRequest request = Variant(variant);
    if (manner == Manner::kIsWrong) request.mutable_sampling()->set_temperature(std::nanf(""));
    if (manner == Manner::kIsHasty) request.mutable_stopping()->mutable_time_limit()->set_nanos(100'000'000);
    grpc::ClientContext context;
    const auto patience = manner == Manner::kExpires ? absl::Milliseconds(random() % 500) : absl::Minutes(3);
    context.set_deadline(absl::ToChronoTime(absl::Now() + patience));
    const auto reader = stub_.Generate(&context, request);
    const unsigned num_patient_reads = random() % 20;
    Answer answer;
    v1::GenerateResponse response;
    for (unsigned reads = 0; reader->Read(&response); ++reads) {
      answer.Add(response);
      if (manner == Manner::kCancels && reads == num_patient_reads) context.TryCancel();
      if (manner == Manner::kAborts && reads == num_patient_reads) Abort(response.request_id());
      if (manner == Manner::kReadsSlowly) absl::SleepFor(absl::Milliseconds(random() % 50));
    }
    Note(manner, variant, reader->Finish(), answer);
  }

  void Abort(const std::string& request_id) {
    grpc::ClientContext context;
    v1::AbortRequest request;
    request.add_request_ids(request_id);
    v1::AbortResponse response;
    EXPECT_TRUE(stub_.Abort(&context, request, &response).ok());
  }

  void Note(Manner manner, unsigned variant, const grpc::Status& status, const Answer& answer) {
    EXPECT_TRUE(IsDocumented(manner, status))
        << "manner " << static_cast<int>(manner) << ": " << status.error_code() << " " << status.error_message();
    {
      MutexLock lock(mutex_);
      ++ends_[status.error_code()];
      if (status.ok() && answer.IsWhole()) {
        ++num_whole_;
        answers_[variant].insert(answer.Text());
      }
    }
    // Who is told to come again later does not come at once.
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
        status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
      absl::SleepFor(absl::Milliseconds(200));
    }
  }

  void KillWorkersUntil(absl::Time end, absl::Duration interval) {
    std::mt19937 random(7);
    for (absl::Time next = absl::Now() + interval; next + interval / 2 < end; next += interval) {
      absl::SleepFor(next - absl::Now());
      const v1::GetServerInfoResponse info = server_.ServerInfo();
      const auto& rank = info.ranks(static_cast<int>(random() % static_cast<unsigned>(info.ranks_size())));
      if (info.state() != v1::SERVER_STATE_SERVING || rank.pid() == 0) continue;  // not up again yet
      EXPECT_EQ(kill(static_cast<pid_t>(rank.pid()), SIGKILL), 0);
      ++num_kills_;
    }
    absl::SleepFor(end - absl::Now());
  }

  ServerProcess& server_;
  v1::InferenceService::Stub& stub_;
  std::atomic<int> num_kills_ = 0;
  Mutex mutex_;
  std::map<unsigned, std::set<std::string>> answers_ ABSL_GUARDED_BY(mutex_);  // whole ones, each once
  int num_whole_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<grpc::StatusCode, int> ends_ ABSL_GUARDED_BY(mutex_);
};

// Whatever happened to requests and workers. The server is idle.
void ExpectMetricsAddUp(ServerProcess& server) {
  const server::Scrape scrape(server.metrics_port());
  const double accepted = scrape["trireme_requests_accepted_total"];
  EXPECT_EQ(scrape.Sum("trireme_requests_finished_total"), accepted);
  EXPECT_EQ(scrape["trireme_e2e_request_latency_seconds_count"], accepted);
  EXPECT_EQ(scrape["trireme_request_generation_tokens_sum"], scrape["trireme_generation_tokens_total"]);
  EXPECT_EQ(scrape["trireme_time_to_first_token_seconds_count"], scrape["trireme_request_decode_time_seconds_count"]);
  EXPECT_LE(scrape["trireme_time_to_first_token_seconds_count"], accepted);
  EXPECT_GE(scrape.Sum("trireme_request_failures_total"), scrape.Sum("trireme_requests_refused_total"));
  EXPECT_EQ(scrape["trireme_requests_running"] + scrape["trireme_requests_waiting"], 0);
  EXPECT_EQ(scrape["trireme_kv_blocks_used"], 0);
  EXPECT_EQ(scrape["trireme_group_generation"], scrape["trireme_group_restarts_total"] + 1);
}

TEST(Soak, WhatIsFinishedIsRightAndNothingIsLeft) {
  const absl::Duration time = SoakTime();
  // Blocks for about four of the longest requests, so that running ones are preempted.
  ServerProcess server(TRIREME_FIXTURES "/hf/text_llama",
                       {"--tp-degree", "2", "--dtype", "float32", "--max-num-seqs", "16", "--max-queued-requests", "6",
                        "--max-model-len", "640", "--kv-cache-memory", "400KiB", "--max-group-restarts", "1000"});
  ASSERT_TRUE(server.BecomesServing());
  Soak soak(server);
  soak.Run(time / 3, absl::InfiniteDuration());
  const std::int64_t after_a_third = ResidentBytes(server.pid());
  soak.Run(time * 2 / 3, time > absl::Minutes(2) ? kKillInterval : kShortKillInterval);

  ASSERT_TRUE(BecomesServingAgain(server));
  EXPECT_TRUE(BecomesIdle(server));
  ExpectMetricsAddUp(server);
  const std::int64_t growth = ResidentBytes(server.pid()) - after_a_third;
  soak.ExpectSoloRuns();
  EXPECT_GT(soak.num_whole_answers(), kNumClients);
  EXPECT_LE(soak.ends()[grpc::StatusCode::INTERNAL], soak.num_kills() / 2) << "two losses convict one at most";
  EXPECT_GT(soak.num_kills(), 0);
  if (!test_support::kIsSanitized) {  // sanitizers keep what is freed
    EXPECT_LT(growth, 8 << 20);
  }
  for (const auto& [code, count] : soak.ends()) std::cout << "code " << code << ": " << count << "\n";
  std::cout << "whole answers: " << soak.num_whole_answers() << ", kills: " << soak.num_kills()
            << ", growth of the server: " << growth / 1024 << " KiB\n";
  server.Signal(SIGTERM);
  const std::optional<int> status = server.WaitForExit();
  EXPECT_TRUE(status && WIFEXITED(*status) && WEXITSTATUS(*status) == 0);
}

}  // namespace
}  // namespace trireme::end_to_end
