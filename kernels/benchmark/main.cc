// How near the limits of this machine the kernels are, for the demo model's shapes (SmolLM2-135M). Prints
// each product beside oneDNN's float32 and beside a plain read of memory, all in this run. Run by hand:
//   trireme-kernel-benchmark [threads]
//
// Weights rotate through more memory than the caches hold, as they do in a step.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <numeric>
#include <vector>

#include "base/cpu.h"
#include "kernels/attention.h"
#include "kernels/benchmark/onednn_peer.h"
#include "kernels/product.h"
#include "kernels/sampling.h"

namespace trireme::kernels::cpu {
namespace {

constexpr std::size_t kBeyondCaches = std::size_t{160} << 20;

// With one thread the time that it ran, which others on the machine stretch least; else the time on the wall.
double Now(bool one_thread) {
  timespec time;
  clock_gettime(one_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The best of several runs.
double BestSeconds(const ThreadPool& pool, const std::function<void()>& run) {
  const bool one_thread = pool.num_threads() == 1;
  double best = 1e9, total = 0;
  for (int i = 0; i < 5 || (total < 0.3 && i < 1000); ++i) {
    const double begin = Now(one_thread);
    run();
    const double seconds = Now(one_thread) - begin;
    best = std::min(best, seconds);
    total += seconds;
  }
  return best;
}

std::vector<float> Numbers(std::int64_t count) {
  std::vector<float> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(i * 2654435761u % 1000) * 1e-3f - 0.5f;
  return out;
}

// GB/s of a plain read. Eight sums, so that no addition waits.
double ReadBandwidth(ThreadPool& pool) {
  const AlignedBuffer buffer(kBeyondCaches);
  const auto* data = buffer.As<std::uint64_t>();
  std::fill_n(buffer.As<std::uint64_t>(), kBeyondCaches / 8, 1);
  std::atomic<std::uint64_t> total = 0;
  const double seconds = BestSeconds(pool, [&] {
    pool.ParallelFor(static_cast<std::int64_t>(kBeyondCaches) / 64, [&](std::int64_t begin, std::int64_t end) {
      std::uint64_t sums[8] = {};
      for (std::int64_t line = begin; line < end; ++line) {
        for (int i = 0; i < 8; ++i) sums[i] += data[8 * line + i];
      }
      total += std::accumulate(sums, sums + 8, std::uint64_t{0});
    });
  });
  return static_cast<double>(kBeyondCaches) / seconds * 1e-9;
}

struct Shape {
  std::int64_t rows, n, k;
};

// Seconds of one product, the weights coming from memory.
template <typename MakeOne>
double SecondsPerProduct(const ThreadPool& pool, const Shape& shape, std::int64_t weight_bytes,
                         const MakeOne& make_one) {
  const auto copies = std::clamp<std::int64_t>(static_cast<std::int64_t>(kBeyondCaches) / weight_bytes, 1, 64);
  std::vector<std::function<void()>> products;
  for (std::int64_t i = 0; i < copies; ++i) products.push_back(make_one());
  const std::size_t used = shape.rows > 1 ? std::min<std::size_t>(products.size(), 8) : products.size();
  return BestSeconds(pool,
                     [&] {
                       for (std::size_t i = 0; i < used; ++i) products[i]();
                     }) /
         static_cast<double>(used);
}

void Print(const char* name, const Shape& shape, std::int64_t weight_bytes, double seconds, double bandwidth) {
  const double rate = static_cast<double>(weight_bytes) / seconds * 1e-9;
  const double flops = 2.0 * static_cast<double>(shape.rows * shape.n * shape.k) / seconds * 1e-9;
  std::printf("  %-22s %9.1f us %7.2f GB/s (%3.0f %% of a read) %8.1f GFLOP/s\n", name, seconds * 1e6, rate,
              100 * rate / bandwidth, flops);
}

void BenchmarkOurs(const char* name, const Shape& shape, ElementType type, ProductEngine engine, double bandwidth,
                   ThreadPool& pool) {
  const std::vector<float> weight = Numbers(shape.n * shape.k), x = Numbers(shape.rows * shape.k);
  std::vector<Bfloat16> halves;
  if (type == ElementType::kBfloat16)
    std::transform(weight.begin(), weight.end(), std::back_inserter(halves), ToBfloat16);
  const void* data = type == ElementType::kFloat32 ? static_cast<const void*>(weight.data()) : halves.data();
  std::vector<float> out(static_cast<std::size_t>(shape.rows * shape.n));
  Multiplier multiplier({shape.rows, shape.k}, pool);
  const std::int64_t bytes = shape.n * shape.k * ElementBytes(type);
  const double seconds = SecondsPerProduct(pool, shape, bytes, [&] {
    auto packed = std::make_shared<PackedWeight>(Matrix{data, type, shape.n, shape.k}, engine, pool);
    return [&, packed] { multiplier.Multiply(*packed, {x.data(), nullptr, out.data(), shape.rows}); };
  });
  Print(name, shape, bytes, seconds, bandwidth);
}

void BenchmarkPeer(const Shape& shape, double bandwidth) {
  const ThreadPool pool({});
  const std::vector<float> weight = Numbers(shape.n * shape.k), x = Numbers(shape.rows * shape.k);
  std::vector<float> out(static_cast<std::size_t>(shape.rows * shape.n));
  const char* name = "oneDNN f32, 1 thread";
  const double seconds = SecondsPerProduct(pool, shape, shape.n * shape.k * 4, [&] {
    auto peer = std::make_shared<OneDnnFloatProduct>(weight.data(), shape.rows, shape.n, shape.k);
    return [&, peer] { peer->Multiply(x.data(), out.data()); };
  });
  Print(name, shape, shape.n * shape.k * 4, seconds, bandwidth);
}

void BenchmarkProducts(double bandwidth, ThreadPool& pool) {
  for (const std::int64_t rows : {1, 16, 512}) {
    for (const auto& [k, n] : std::vector<std::pair<int, int>>{
             {576, 576}, {576, 192}, {576, 1536}, {1536, 576}, {576, 49152}, {4096, 4096}}) {
      if (rows == 512 && n == 49152) continue;  // logits of a whole prompt are not wanted
      const Shape shape{rows, n, k};
      std::printf("%d x %d, %d rows\n", k, n, static_cast<int>(rows));
      BenchmarkPeer(shape, bandwidth);
      BenchmarkOurs("own f32", shape, ElementType::kFloat32, ProductEngine::kOwn, bandwidth, pool);
      BenchmarkOurs("own bf16", shape, ElementType::kBfloat16, ProductEngine::kOwn, bandwidth, pool);
      if (GetCpuFeatures().avx512) {
        BenchmarkOurs("oneDNN bf16", shape, ElementType::kBfloat16, ProductEngine::kOneDnn, bandwidth, pool);
      }
    }
  }
}

// One sequence: `queries` tokens after `context`.
void BenchmarkAttention(std::int64_t queries, std::int64_t context, ElementType type, ThreadPool& pool) {
  constexpr std::int64_t kHeads = 9, kKvHeads = 3, kHeadDim = 64, kBlock = 16;
  const std::int64_t blocks = (context + queries + kBlock - 1) / kBlock;
  const KvCacheShape shape{blocks, kBlock, kKvHeads, kHeadDim, type};
  std::vector<std::byte> keys(static_cast<std::size_t>(KvCacheBytes(shape))), values(keys.size());
  std::vector<std::int32_t> table(static_cast<std::size_t>(blocks));
  std::iota(table.begin(), table.end(), 0);
  const std::vector<float> q = Numbers(queries * kHeads * kHeadDim);
  std::vector<float> out(q.size());
  const SequenceRows rows{.num_queries = queries, .context_length = context, .block_table = table.data()};
  const KvCache cache{keys.data(), values.data(), shape};
  const double seconds = BestSeconds(pool, [&] {
    PagedAttention({q.data(), kHeads * kHeadDim, out.data()}, {&rows, 1}, cache, {kHeads, 0.125f}, pool);
  });
  const double pairs =
      static_cast<double>(queries) * (static_cast<double>(context) + static_cast<double>(queries + 1) / 2);
  std::printf("attention, %4d queries after %4d, %s: %8.1f us %7.1f GFLOP/s %6.2f GB/s of cache\n",
              static_cast<int>(queries), static_cast<int>(context), type == ElementType::kFloat32 ? "f32 " : "bf16",
              seconds * 1e6, pairs * kHeads * kHeadDim * 4 / seconds * 1e-9,
              2 * static_cast<double>(keys.size()) / seconds * 1e-9);
}

void BenchmarkSampling() {
  const ThreadPool pool({});
  const std::vector<float> logits = Numbers(49152);
  const LogitShard shard{logits, 0};
  std::vector<TokenScore> top(64);
  volatile double sink = 0;
  const auto print = [](const char* name, double seconds) { std::printf("%-40s %8.1f us\n", name, seconds * 1e6); };
  print("49152 logits: best", BestSeconds(pool, [&] { sink = LocalBest(shard).score; }));
  print("49152 logits: log-sum-exp", BestSeconds(pool, [&] { sink = LocalLogSumExp(shard, 0.7f).sum; }));
  print("49152 logits: top 64", BestSeconds(pool, [&] { sink = static_cast<double>(TopCandidates(shard, top)); }));
  print("49152 logits: Gumbel best", BestSeconds(pool, [&] { sink = GumbelBest(shard, 0.7f, {.seed = 1}).score; }));
}

void Run(int threads) {
  ThreadPool pool({.num_threads = threads, .spin = absl::Microseconds(threads > 1 ? 50 : 0)});
  const double bandwidth = ReadBandwidth(pool);
  std::printf("%d threads; avx512 %d, avx512_bf16 %d, amx_bf16 %d; a plain read: %.2f GB/s\n", threads,
              GetCpuFeatures().avx512, GetCpuFeatures().avx512_bf16, GetCpuFeatures().amx_bf16, bandwidth);
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
    for (const auto& [queries, context] : {std::pair{512, 0}, {1, 511}, {1, 8191}, {16, 2000}}) {
      BenchmarkAttention(queries, context, type, pool);
    }
  }
  BenchmarkSampling();
  BenchmarkProducts(bandwidth, pool);
}

}  // namespace
}  // namespace trireme::kernels::cpu

int main(int argc, char** argv) { trireme::kernels::cpu::Run(argc > 1 ? std::atoi(argv[1]) : trireme::UsableCpus()); }
