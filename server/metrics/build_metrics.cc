#include "server/metrics/build_metrics.h"

namespace trireme::server {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Histogram;
using prometheus::Labels;
using prometheus::Registry;

Histogram::BucketBoundaries DurationBuckets() {
  Histogram::BucketBoundaries seconds = {0.0005, 0.00075};
  for (const double decade : {0.001, 0.01, 0.1, 1.0, 10.0, 100.0}) {
    for (const double step : {1.0, 1.5, 2.0, 3.0, 5.0, 7.5}) seconds.push_back(decade * step);
  }
  return seconds;
}

Histogram::BucketBoundaries CountBuckets() {
  Histogram::BucketBoundaries counts;
  for (int count = 1; count <= 131072; count *= 2) counts.push_back(count);
  return counts;
}

Family<Counter>& AddCounterFamily(Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

Counter& AddCounter(Registry& registry, const char* name, const char* help, const Labels& labels) {
  return AddCounterFamily(registry, name, help).Add(labels);
}

Histogram& AddHistogram(Registry& registry, const char* name, const char* help,
                        const Histogram::BucketBoundaries& buckets, const Labels& labels) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels, buckets);
}

}  // namespace trireme::server
