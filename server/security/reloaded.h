// A value that is made from files, and made anew when they change.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/logging.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "server/security/file_stamp.h"

namespace trireme::server {

// Files are looked at by a thread, every `interval`: inotify would miss changes on network file systems and the links
// that Kubernetes switches. If the new files are no good the value stays, and the log says why, once for each change.
// Thread-safe.
template <typename T>
class Reloaded {
 public:
  struct Source {
    std::string name;  // for the log: "TLS certificates"
    std::vector<std::string> files;
    std::function<absl::StatusOr<T>()> load;  // reads `files`
    absl::Duration interval = absl::Seconds(1);
  };

  // The error of the first load.
  static absl::StatusOr<std::unique_ptr<Reloaded>> Start(Source source) {
    std::vector<FileStamp> stamps = StampsOf(source.files);
    ASSIGN_OR_RETURN(T value, source.load());
    return std::unique_ptr<Reloaded>(new Reloaded(std::move(source), std::move(stamps), std::move(value)));
  }

  ~Reloaded() {
    {
      MutexLock lock(mutex_);
      is_stopped_ = true;
      stop_.SignalAll();
    }
    thread_.join();
  }
  Reloaded(const Reloaded&) = delete;
  Reloaded& operator=(const Reloaded&) = delete;

  // Another object after each reload, never null.
  std::shared_ptr<const T> value() const {
    MutexLock lock(mutex_);
    return value_;
  }

 private:
  Reloaded(Source source, std::vector<FileStamp> stamps, T value)
      : source_(std::move(source)),
        stamps_(std::move(stamps)),
        value_(std::make_shared<const T>(std::move(value))),
        thread_([this] { Watch(); }) {}

  void Watch() {
    while (!StopsWithin(source_.interval)) {
      // Before the load: files that change during it are loaded again.
      if (std::vector<FileStamp> stamps = StampsOf(source_.files); stamps != stamps_) {
        stamps_ = std::move(stamps);
        Reload();
      }
    }
  }

  bool StopsWithin(absl::Duration interval) {
    const absl::Time end = absl::Now() + interval;
    MutexLock lock(mutex_);
    while (!is_stopped_ && stop_.WaitUntil(mutex_, end)) {
    }
    return is_stopped_;
  }

  void Reload() {
    absl::StatusOr<T> fresh = source_.load();
    if (!fresh.ok()) {
      LogError("the changed files are no good: what was loaded before stays in use",
               {{"what", source_.name}, {"error", std::string(fresh.status().message())}});
      return;
    }
    auto value = std::make_shared<const T>(*std::move(fresh));
    LogInfo("reloaded", {{"what", source_.name}});
    MutexLock lock(mutex_);
    value_ = std::move(value);
  }

  const Source source_;
  std::vector<FileStamp> stamps_;  // of the thread, once it runs
  mutable Mutex mutex_;
  CondVar stop_;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<const T> value_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses the others
};

}  // namespace trireme::server
