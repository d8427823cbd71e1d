// Short forms of prometheus-cpp's builders, and our buckets. Metrics live as long as their registry.
#pragma once
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/labels.h>
#include <prometheus/registry.h>

namespace trireme::server {

// Six a decade, from half a millisecond to 750 s: a small model's token takes few milliseconds, a long request minutes.
prometheus::Histogram::BucketBoundaries DurationBuckets();

// Powers of two from 1 to 131,072.
prometheus::Histogram::BucketBoundaries CountBuckets();

// For labels whose values come while the server runs.
prometheus::Family<prometheus::Counter>& AddCounterFamily(prometheus::Registry& registry, const char* name,
                                                          const char* help);

prometheus::Counter& AddCounter(prometheus::Registry& registry, const char* name, const char* help,
                                const prometheus::Labels& labels = {});

prometheus::Histogram& AddHistogram(prometheus::Registry& registry, const char* name, const char* help,
                                    const prometheus::Histogram::BucketBoundaries& buckets,
                                    const prometheus::Labels& labels = {});

}  // namespace trireme::server
