// An open-loop load: requests are sent when the plan says so, whether or not earlier ones were
// answered, and a latency counts from the *intended* send time to the last byte of the answer.
// A slow server therefore cannot slow its own measurement down (no coordinated omission).
//
// One thread, one io_context, owned by run_load(). Connections are kept and reused; at most
// `connections` exist, and a request that must wait for one waits on its own clock.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/arrivals.h"
#include "wire/http.h"

namespace sluice::cli {

struct LoadTarget {
  std::string name;  // of the function, for reports
  std::string path;  // "/v2/models/NAME/infer"
  std::string body;
  std::string content_type = "application/json";
  size_t json_bytes = 0;  // Inference-Header-Content-Length, when the body is binary
  std::string token;
  RatePlan plan;
  Gaps gaps;
  uint64_t seed = 1;
  Nanos slo{0};  // 0: nothing is late
};

struct LoadOptions {
  wire::Endpoint server;
  int connections = 512;
  Nanos timeout = Seconds(60);  // of one request
};

struct LoadResult {
  std::string name;
  uint64_t sent = 0;
  uint64_t ok = 0;
  uint64_t shed = 0;                // 429
  uint64_t failed = 0;              // any other status, a broken connection, a time-out
  uint64_t late = 0;                // ok, but after the SLO
  std::vector<Nanos> latencies;     // of those answered with 200
  std::vector<std::string> faults;  // the first few, for people

  // Late, shed or failed, in per cent of what was sent.
  double violations_pct() const;
};

// The q-quantile (0 … 1) by nearest rank; 0 when there is none.
Nanos quantile(std::vector<Nanos> values, double q);

// Called about once a second with what there is so far.
using LoadProgress = std::function<void(Nanos since_start, const std::vector<LoadResult>&)>;

// Plays all targets at once; returns when every request has been answered or has timed out.
// `stop` ends the sending early.
std::vector<LoadResult> run_load(const std::vector<LoadTarget>& targets, const LoadOptions& options,
                                 const LoadProgress& progress = {},
                                 const std::atomic<bool>* stop = nullptr);

}  // namespace sluice::cli
