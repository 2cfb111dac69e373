// What a model has done since it was loaded, in the words of Triton's statistics extension.
// Thread-safe: the thread that runs the model writes, the server reads.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"

namespace sluice::runtime {

struct Durations {
  uint64_t count = 0;
  Nanos total{0};

  void add(Nanos each, uint64_t times = 1) {
    count += times;
    total += each * static_cast<int64_t>(times);
  }
};

// One execution: parts of a batch's life that all its requests share.
struct Execution {
  int requests = 0;
  int inferences = 0;
  Nanos input{0}, infer{0}, output{0};
};

class Statistics {
 public:
  void executed(const Execution&, UnixMillis now);
  void answered(bool ok, Nanos queue, Nanos whole);

  // One element of "model_stats".
  nlohmann::json json(const std::string& name, const std::string& version) const;

 private:
  struct PerBatch {
    Durations input, infer, output;
  };

  mutable std::mutex mutex_;
  UnixMillis last_inference_ = 0;
  uint64_t inferences_ = 0;
  uint64_t executions_ = 0;
  Durations success_, fail_, queue_, input_, infer_, output_;
  std::map<int, PerBatch> by_batch_;
};

}  // namespace sluice::runtime
