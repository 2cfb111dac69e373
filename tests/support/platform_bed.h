// A whole platform on a data folder of its own, as `sluice up` starts it, for benchmarks across its
// processes. With tests/programs/fake_runtime.cc or the real runtime. One thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "tests/support/open_load.h"
#include "wire/http/http.h"

namespace sluice::bench {

struct PlatformSettings {
  std::string sluice, runtime;
  std::string model;       // the real runtime's; empty: a model of the fake one
  int fake_load_ms = 300;  // the fake one's load time
};

class PlatformBed {
 public:
  explicit PlatformBed(PlatformSettings settings);
  ~PlatformBed();
  PlatformBed(const PlatformBed&) = delete;

  Result<void> ready();                                        // waits for its processes
  Result<void> deploy(const std::string& name, int replicas);  // waits for its instances

  Result<nlohmann::json> get(const std::string& target);  // of the control API
  Result<void> apply(const std::string& file);            // the text of a function file
  Result<void> call(wire::http::verb method, const std::string& target);
  // `sluice down --keep`, then `sluice up` on the same ports; the instances stay.
  Result<void> restart();

  const std::string& data() const { return data_; }
  uint16_t gateway_port() const;
  uint16_t api_port() const;
  pid_t pid_of(const std::string& process) const;  // "node", "control", "gateway"; 0: none

  // Starts the runtime on a function's model without a platform. Returns the time until its first
  // answer to `ask`.
  Result<Nanos> plain_exec(const std::string& name, const Question& ask);

  // Acts as init for the platform's orphans: reaps those that have ended.
  void reap();
  // Ends the platform. Returns its processes that live on; every other child counts as one of them.
  std::vector<pid_t> end();

 private:
  void start(uint16_t gateway_port, uint16_t api_port);
  std::string model_of(const std::string& name);

  const PlatformSettings settings_;
  std::string folder_, data_;
  pid_t supervisor_ = 0;
};

std::vector<pid_t> children_of(pid_t pid);

}  // namespace sluice::bench
