// The platform that a play of the main job starts: a process of its own, in a folder of
// quickstart's making, for the lifetime of an object. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/session.h"

namespace sluice::cli {

class QuickstartPlatform {
 public:
  // Empties session.data, only if an earlier play made it and no platform runs there, and starts
  // `sluice up` with these flags.
  static Result<QuickstartPlatform> start(const Session& session, const std::string& policy,
                                          const std::vector<std::string>& flags = {});
  QuickstartPlatform(QuickstartPlatform&& other) noexcept
      : data_(std::move(other.data_)), pid_(std::exchange(other.pid_, 0)) {}
  ~QuickstartPlatform() { stop(); }

  // Waits until it has CPU devices and its gateway answers. Returns their number.
  Result<size_t> devices(const Session& session);
  void leave() { pid_ = 0; }  // it goes on

 private:
  explicit QuickstartPlatform(std::string data) : data_(std::move(data)) {}
  bool lives();
  void stop();

  std::string data_;
  pid_t pid_ = 0;
};

// Asks every 100 ms until it is done.
Result<void> wait_for(const std::function<Result<bool>()>& done, Nanos patience,
                      const std::string& what);

}  // namespace sluice::cli
