// Reads /metrics over HTTP, as Prometheus does.
#pragma once
#include <map>
#include <string>

namespace trireme::server {

// Series by name and labels as they stand in the text: `trireme_rank_up{rank="0"}` → 1. A failure to connect, or a
// line that does not parse, is a test failure. What the library tells of its own HTTP server (`exposer_...`) is left
// out.
class Scrape {
 public:
  explicit Scrape(int port, const std::string& path = "/metrics");

  int status() const { return status_; }  // of HTTP
  const std::map<std::string, double>& series() const { return series_; }

  // The value of a series; a test failure if there is none.
  double operator[](const std::string& name) const;

  // Sum over all series of this name, whatever their labels.
  double Sum(const std::string& name) const;

  // By name; also of those that have no series now.
  const std::map<std::string, std::string>& types() const { return types_; }

  // "counter", "gauge", "histogram"; empty if unknown.
  std::string TypeOf(const std::string& name) const;

 private:
  void ReadLine(const std::string& line);

  int status_ = 0;
  std::map<std::string, double> series_;
  std::map<std::string, std::string> types_;
};

}  // namespace trireme::server
