// How fast one rank decodes, and where a step's time goes. Run by hand:
//   trireme-worker-benchmark --model MODEL [--batch 1] [--context 64] [--threads 1] [--bfloat16]
//                            [--temperature 0] [--penalties] [--filters] [--typical]
// With one thread, times are those that it ran; with more, those on the wall. Prints tokens a second,
// milliseconds a step by part, and the bandwidth at which weights were streamed beside that of a plain read
// of memory in the same run.
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/flags.h"
#include "kernels/cpu/thread_pool.h"
#include "sharding/model.h"
#include "worker/benchmark/timed_ops.h"
#include "worker/cpu_ops.h"
#include "worker/kv_cache.h"
#include "worker/program_runner.h"
#include "worker/sampler.h"
#include "worker/single_rank_communicator.h"
#include "worker/weights.h"

namespace trireme::worker {
namespace {

constexpr std::int64_t kBlockTokens = 16;
constexpr int kSteps = 20;

struct BenchmarkOptions {
  std::string model;
  std::uint32_t batch = 1;
  std::uint32_t context = 64;
  std::uint32_t threads = 1;
  bool bfloat16 = false;
  float temperature = 0;
  bool has_penalties = false;
  bool has_filters = false;
  bool has_typical = false;
};

SamplingSettings SettingsFrom(const BenchmarkOptions& options) {
  SamplingSettings settings = {.temperature = options.temperature};
  if (options.has_penalties) {
    settings.repetition_penalty = 1.1f;
    settings.frequency_penalty = settings.presence_penalty = 0.5f;
  }
  if (options.has_filters) settings.top_k = 50, settings.top_p = 0.9f, settings.min_p = 0.05f;
  if (options.has_typical) settings.typical_p = 0.9f;
  return settings;
}

// One decode of each sequence: `context` tokens are in its cache (whatever lies there).
struct DecodeBatch {
  explicit DecodeBatch(const BenchmarkOptions& options) : settings(SettingsFrom(options)) {
    for (std::uint32_t i = 0; i <= options.context; ++i) history.push_back(static_cast<std::int32_t>(i * 31 % 40000));
    const std::int64_t blocks_each = options.context / kBlockTokens + 1;
    block_table.resize(options.batch * blocks_each);
    std::iota(block_table.begin(), block_table.end(), 0);
    batch.sequences.resize(1);
    for (std::uint32_t s = 0; s < options.batch; ++s) {
      batch.token_ids.push_back(static_cast<std::int32_t>(s + 100));
      batch.positions.push_back(static_cast<std::int32_t>(options.context));
      batch.sequences[0].push_back({s, 1, options.context, block_table.data() + s * blocks_each});
      batch.logit_row_indices.push_back(static_cast<std::int32_t>(s));
      batch.logit_rows.push_back({.slot = s, .history = {history, options.context / 2}, .settings = &settings});
    }
  }
  const SamplingSettings settings;
  std::vector<std::int32_t> history;  // of all
  std::vector<std::int32_t> block_table;
  Batch batch;
};

double ReadGigabytesPerSecond(int num_threads, StepClock clock) {
  constexpr std::size_t kCount = std::size_t{32} << 20;
  kernels::cpu::ThreadPool pool({.num_threads = num_threads});
  const std::vector<std::uint64_t> data(kCount, 1);
  std::atomic<std::uint64_t> total = 0;
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const absl::Duration begun = clock();
    pool.ParallelFor(kCount, [&](std::int64_t begin, std::int64_t end) {
      std::uint64_t sums[8] = {};
      for (std::int64_t j = begin; j + 8 <= end; j += 8) {
        for (int k = 0; k < 8; ++k) sums[k] += data[j + k];
      }
      total += std::accumulate(sums, sums + 8, std::uint64_t{0});
    });
    best = std::max(best, 8e-9 * kCount / absl::ToDoubleSeconds(clock() - begun));
  }
  CHECK_GT(total.load(), 0u);
  return best;
}

void PrintParts(const TimeByPart& times, absl::Duration total) {
  std::vector<std::pair<absl::Duration, std::string>> parts;
  absl::Duration rest = total;
  for (const auto& [part, time] : times) {
    parts.emplace_back(time, part);
    rest -= time;
  }
  parts.emplace_back(rest, "the rest");
  std::sort(parts.rbegin(), parts.rend());
  for (const auto& [time, part] : parts) {
    std::printf("  %-22s %8.3f ms  %5.1f %%\n", part.c_str(), absl::ToDoubleMilliseconds(time) / kSteps,
                100 * absl::FDivDuration(time, total));
  }
}

absl::Status Run(const BenchmarkOptions& options) {
  const auto communicator = MakeSingleRankCommunicator();
  absl::StatusOr<sharding::Model> model = sharding::OpenModel(options.model, sharding::StrategyRegistry::BuiltIn());
  if (!model.ok()) return model.status();
  const auto program = sharding::Compile(model->program, model->plan, communicator->rank());
  if (!program.ok()) return program.status();

  const StepClock clock = options.threads == 1 ? ThreadTime : WallTime;
  TimeByPart times;
  const auto ops = MakeTimedOps(MakeCpuOps({.num_threads = static_cast<int>(options.threads),
                                            .spin = absl::Microseconds(50),
                                            .rope_tables = program->rope_tables,
                                            .max_positions = options.context + 1,
                                            .max_rows = options.batch,
                                            .max_in_width = 1 << 15}),
                                clock, times);
  const auto dtype = options.bfloat16 ? sharding::DType::kBF16 : sharding::DType::kF32;
  LoadProgress progress;
  const absl::Duration load_begun = clock();
  const auto weights = Weights::Load(*program, *model->checkpoint, dtype, *ops, progress);
  if (!weights.ok()) return weights.status();
  std::printf("loaded %.1f MB in %.2f s\n", 1e-6 * weights->size_bytes(), absl::ToDoubleSeconds(clock() - load_begun));
  const auto type = options.bfloat16 ? kernels::ElementType::kBfloat16 : kernels::ElementType::kFloat32;
  const auto cache = KvCache::Allocate({program->kv_groups, std::uint64_t{1} << 30, kBlockTokens, type}, *ops);
  if (!cache.ok()) return cache.status();
  const auto runner = ProgramRunner::Create({*program, *weights, **cache, *ops, *communicator}, options.batch);
  if (!runner.ok()) return runner.status();
  const auto sampler = Sampler::Create({program->vocabulary, program->logits_vocabulary, options.batch, options.batch},
                                       *ops, *communicator);
  if (!sampler.ok()) return sampler.status();

  const DecodeBatch decode(options);
  absl::Duration total, sampling;
  for (int step = -2; step < kSteps; ++step) {  // two to warm up
    if (step == 0) times.clear(), total = sampling = absl::ZeroDuration();
    const absl::Duration begun = clock();
    if (absl::Status status = (*runner)->Run(decode.batch); !status.ok()) return status;
    const absl::Duration ran = clock();
    if (auto sampled = (*sampler)->Sample((*runner)->logits(), decode.batch.logit_rows); !sampled.ok())
      return sampled.status();
    sampling += clock() - ran;
    total += clock() - begun;
  }
  const double seconds = absl::ToDoubleSeconds(total) / kSteps;
  std::printf("batch %u, context %u, %u threads: %.2f ms a step, %.1f tokens/s\n", options.batch, options.context,
              options.threads, 1e3 * seconds, options.batch / seconds);
  std::printf("sampling: %.3f ms a step\n", absl::ToDoubleMilliseconds(sampling) / kSteps);
  PrintParts(times, total);
  std::printf("a plain read of memory: %.1f GB/s\n", ReadGigabytesPerSecond(static_cast<int>(options.threads), clock));
  return absl::OkStatus();
}

}  // namespace
}  // namespace trireme::worker

int main(int argc, char** argv) {
  trireme::worker::BenchmarkOptions options;
  trireme::FlagParser flags("trireme-worker-benchmark", "How fast one rank decodes, and where the time goes.");
  flags.Add("model", "PATH", "checkpoint folder or .gguf file", &options.model);
  flags.Add("batch", "N", "sequences", &options.batch);
  flags.Add("context", "N", "tokens in the cache of each", &options.context);
  flags.Add("threads", "N", "threads of the rank", &options.threads);
  flags.Add("temperature", "T", "0 is greedy", &options.temperature);
  flags.AddSwitch("penalties", "repetition, frequency and presence penalty", &options.has_penalties);
  flags.AddSwitch("filters", "top_k, top_p and min_p; needs a temperature", &options.has_filters);
  flags.AddSwitch("typical", "typical_p; needs a temperature", &options.has_typical);
  flags.AddSwitch("bfloat16", "weights and cache in bfloat16", &options.bfloat16);
  if (const std::optional<int> exit_status = trireme::ParseOrExit(flags, {argv + 1, argv + argc})) return *exit_status;
  const absl::Status status = trireme::worker::Run(options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
