#include "tests/server/metrics/scrape.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <sstream>

#include "absl/strings/numbers.h"

namespace trireme::server {
namespace {

// All that a server on the loopback interface answers to `request`, within ten seconds of silence.
std::string Exchange(int port, const std::string& request) {
  const int connection = socket(AF_INET, SOCK_STREAM, 0);
  const timeval timeout = {.tv_sec = 10, .tv_usec = 0};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0) << port;
  EXPECT_EQ(send(connection, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
  std::string answer;
  char bytes[4096];
  for (ssize_t count; (count = recv(connection, bytes, sizeof(bytes), 0)) > 0;) {
    answer.append(bytes, static_cast<std::size_t>(count));
  }
  close(connection);
  return answer;
}

}  // namespace

Scrape::Scrape(int port, const std::string& path) {
  std::istringstream answer(Exchange(port, "GET " + path + " HTTP/1.0\r\n\r\n"));
  std::string version, line;
  answer >> version >> status_;
  std::getline(answer, line);
  while (std::getline(answer, line) && line != "\r") {
  }
  if (status_ != 200) return;
  while (std::getline(answer, line)) ReadLine(line);
}

void Scrape::ReadLine(const std::string& line) {
  if (line.starts_with("exposer_") || line.starts_with("# TYPE exposer_")) return;
  if (line.starts_with("# TYPE ")) {
    const std::size_t space = line.find(' ', 7);
    types_[line.substr(7, space - 7)] = line.substr(space + 1);
  }
  if (line.empty() || line[0] == '#') return;
  const std::size_t space = line.rfind(' ');
  double value = 0;
  EXPECT_TRUE(absl::SimpleAtod(line.substr(space + 1), &value)) << line;
  EXPECT_TRUE(series_.emplace(line.substr(0, space), value).second) << "twice: " << line;
}

double Scrape::operator[](const std::string& name) const {
  const auto found = series_.find(name);
  EXPECT_NE(found, series_.end()) << "no series " << name;
  return found == series_.end() ? 0 : found->second;
}

double Scrape::Sum(const std::string& name) const {
  double sum = 0;
  for (const auto& [series, value] : series_) {
    if (series == name || series.starts_with(name + "{")) sum += value;
  }
  return sum;
}

std::string Scrape::TypeOf(const std::string& name) const {
  const auto found = types_.find(name);
  return found == types_.end() ? "" : found->second;
}

}  // namespace trireme::server
