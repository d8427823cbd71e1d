// What is told of many measured values.
#pragma once
#include <cstddef>
#include <vector>

namespace trireme::client {

// All zero where there are no values.
struct Summary {
  std::size_t count = 0;
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p95 = 0;
  double p99 = 0;
  double max = 0;
};

// The value below which `percent` of a hundred lie, by linear interpolation between the two nearest values: that at
// place percent / 100 * (size - 1) of the sorted ones, counted from 0. It is NumPy's default ("linear"; type 7 of
// Hyndman and Fan). REQUIRES: `sorted` ascending and not empty; 0 <= percent <= 100.
double Percentile(const std::vector<double>& sorted, double percent);

Summary Summarize(std::vector<double> values);

}  // namespace trireme::client
