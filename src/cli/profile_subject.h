// The instance that a profile measures, under the node daemon beside the control loop: a real one
// behind its real gate, as in service. It ends with this object. Not thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "model/device.h"
#include "wire/http/http.h"

namespace sluice::cli {

// What it had used so far, by its node.
struct SubjectUse {
  Nanos busy{0};                   // its cores or SMs worked for it
  std::optional<Share> occupancy;  // of its whole GPU's warps, in the last quarter of a second
};

class Subject {
 public:
  // `order`: the node's order of an instance, without its slice; a start's number is added to the
  // id. `stop` ends a start early.
  Subject(wire::HttpClient& node, nlohmann::json order, const Device& device, Nanos start_timeout,
          const std::atomic<bool>* stop);
  ~Subject();
  Subject(const Subject&) = delete;

  // Gives it the slice. It is started first if it does not run, and anew if its sm changes on a
  // device where a running instance's cannot. Returns once it is ready, or `stop` is set.
  Result<void> take(const Slice& slice);
  // Its own socket, another one after each start.
  wire::HttpClient& http() { return *http_; }
  Result<SubjectUse> use();
  // Returns the most that it was seen to need, by use(): what becomes an instance's limit.
  Bytes memory() const { return memory_; }

 private:
  Result<void> start(const Slice& slice);
  Result<void> end();
  // Returns its record once it is in that state, or `stop` is set.
  Result<nlohmann::json> wait_until(const std::string& state, Nanos patience);

  wire::HttpClient& node_;
  nlohmann::json order_;
  const std::string name_;
  const Device device_;
  const Nanos start_timeout_;
  const std::atomic<bool>* const stop_;
  int starts_ = 0;
  std::string id_;  // empty: it does not run
  Slice slice_;
  std::unique_ptr<wire::HttpClient> http_;
  Bytes memory_ = 0;
};

}  // namespace sluice::cli
