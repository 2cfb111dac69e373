// An open-loop load: requests are sent at planned times, whether or not earlier ones were answered,
// and latency counts from the *intended* send time to the last byte of the answer. So a slow server
// cannot slow its own measurement down (no coordinated omission).
//
// One thread, one io_context, owned by run_load(). Connections are kept and reused; at most
// `connections` exist, and a request that must wait for one waits on its own clock. At most
// kMostWaiting wait; a request beyond these fails at once.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/arrivals.h"
#include "wire/http/http.h"

namespace sluice::cli {

using sim::Gaps;
using sim::RatePlan;
using sim::RateStep;

struct LoadTarget {
  std::string name;  // of the function, for reports
  wire::http::verb method = wire::http::verb::post;
  std::string path;  // "/v2/models/NAME/infer"
  std::string body;
  std::string content_type = "application/json";
  size_t json_bytes = 0;  // Inference-Header-Content-Length, if the body is binary
  std::string token;
  RatePlan plan;
  Gaps gaps;
  uint64_t seed = 1;
  Nanos slo{0};            // 0: nothing is late
  double percentile = 95;  // of the requests that must be within it
};

struct LoadOptions {
  wire::Endpoint server;
  int connections = 512;
  Nanos timeout = Seconds(60);  // of one request
};

inline constexpr size_t kMostWaiting = 16 * 1024;

struct LoadResult {
  std::string name;
  uint64_t sent = 0;
  uint64_t ok = 0;
  uint64_t shed = 0;                // 429
  uint64_t failed = 0;              // any other status, a broken connection, a time-out
  uint64_t late = 0;                // ok, but after the SLO
  uint64_t went_out = 0;            // got a connection
  double planned_rate = 0;          // per second, until the last was to be sent
  double rate = 0;                  // the same of those that went out meanwhile
  std::vector<Nanos> latencies;     // of those answered with 200
  std::vector<std::string> faults;  // the first few, for people

  // Late, shed or failed requests, in per cent of those sent.
  double violations_pct() const;
};

// Returns the q-quantile (0 … 1) by nearest rank; 0 without values.
Nanos quantile(std::vector<Nanos> values, double q);

// Called about once a second with the results so far.
using LoadProgress = std::function<void(Nanos since_start, const std::vector<LoadResult>&)>;

// Plays all targets at once; returns when every request has been answered or has timed out.
// `stop` ends the sending early.
std::vector<LoadResult> run_load(const std::vector<LoadTarget>& targets, const LoadOptions& options,
                                 const LoadProgress& progress = {},
                                 const std::atomic<bool>* stop = nullptr);

}  // namespace sluice::cli
