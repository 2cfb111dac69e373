#include "cli/load_report.h"

#include <cmath>

#include "cli/table.h"
#include "model/quantity.h"

namespace sluice::cli {
namespace {

// "95", "99.9"
std::string plain(double percent) {
  const double whole = std::round(percent);
  return fixed(percent, std::abs(percent - whole) < 1e-6 ? 0 : 1);
}

}  // namespace

nlohmann::json report_of(const std::vector<LoadResult>& results) {
  nlohmann::json out = nlohmann::json::array();
  for (const LoadResult& r : results)
    out.push_back({{"name", r.name},
                   {"requests", r.sent},
                   {"rate", r.rate},
                   {"ok", r.ok},
                   {"shed", r.shed},
                   {"failed", r.failed},
                   {"late", r.late},
                   {"p50_ms", millis(quantile(r.latencies, 0.5))},
                   {"p95_ms", millis(quantile(r.latencies, 0.95))},
                   {"p99_ms", millis(quantile(r.latencies, 0.99))},
                   {"violations_pct", r.violations_pct()},
                   {"faults", r.faults}});
  return out;
}

std::string table_of(const std::vector<LoadResult>& results) {
  Table t({"NAME", "REQUESTS", "OK", "SHED", "FAILED", "LATE", "P50", "P95", "P99", "VIOL"});
  for (const LoadResult& r : results)
    t.add({r.name, std::to_string(r.sent), std::to_string(r.ok), std::to_string(r.shed),
           std::to_string(r.failed), std::to_string(r.late),
           fixed(millis(quantile(r.latencies, 0.5)), 0) + "ms",
           fixed(millis(quantile(r.latencies, 0.95)), 0) + "ms",
           fixed(millis(quantile(r.latencies, 0.99)), 0) + "ms",
           fixed(r.violations_pct(), 1) + "%"});
  std::string out = t.text();
  for (const LoadResult& r : results)
    for (const std::string& fault : r.faults) out += r.name + ": " + fault + "\n";
  return out;
}

std::vector<std::string> missed_objectives(const std::vector<LoadTarget>& targets,
                                           const std::vector<LoadResult>& results) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < results.size(); ++i) {
    const LoadTarget& target = targets[i];
    const LoadResult& r = results[i];
    const double allowed = 100 - target.percentile;
    if (target.slo == Nanos(0) || r.ok == 0 || r.violations_pct() <= allowed) continue;
    lines.push_back(r.name + ": objective missed: p" + plain(target.percentile) + " is " +
                    fixed(millis(quantile(r.latencies, target.percentile / 100)), 0) +
                    "ms, the objective " + sluice::format_duration(target.slo) + "; " +
                    fixed(r.violations_pct(), 1) + "% of the requests were late, shed or failed, " +
                    plain(allowed) + "% may be");
  }
  return lines;
}

std::vector<std::string> missed_rates(const std::vector<LoadResult>& results, int connections) {
  constexpr double kReached = 0.95;
  std::vector<std::string> lines;
  for (const LoadResult& r : results)
    if (r.rate < kReached * r.planned_rate)
      lines.push_back(r.name + ": " + fixed(r.planned_rate, 0) + " requests/s were asked for, " +
                      fixed(r.rate, 0) + "/s were sent: more is beyond this machine, or beyond " +
                      std::to_string(connections) + " --connections");
  return lines;
}

Result<void> anything_answered(const std::vector<LoadResult>& results) {
  for (const LoadResult& r : results)
    if (r.sent > 0 && r.ok == 0)
      return Error{ErrorKind::kInternal, r.name + ": none of " + std::to_string(r.sent) +
                                             " requests was answered with 200"};
  return {};
}

Result<void> few_failures(const std::vector<LoadResult>& results, double percent) {
  for (const LoadResult& r : results) {
    const uint64_t failed = r.shed + r.failed;
    if (static_cast<double>(failed) * 100 <= percent * static_cast<double>(r.sent)) continue;
    return Error{ErrorKind::kInternal, r.name + ": " + std::to_string(failed) + " of " +
                                           std::to_string(r.sent) +
                                           " requests were shed or failed; --max-failures allows " +
                                           fixed(percent, percent < 1 ? 2 : 0) + " %"};
  }
  return {};
}

}  // namespace sluice::cli
