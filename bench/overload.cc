// **overload**: a gateway with two instances of 50 ms (40 requests a second) under 1, 2, 10 and 50
// times their capacity, for 15 s each, then 0.7 times. A fifth of the clients pauses within its
// body, so that a 429 meets clients that still send. In time means within the objective of 500 ms.
// Then every bundle in simulation, below capacity (overload_simulated.h).
//
//   bench_overload [--seconds 15] [--seed 1] [--json FILE]
//
// --seconds 0 leaves the gateway out.
#include <cstdio>

#include "bench/overload_simulated.h"
#include "bench/report.h"
#include "tests/support/overload_case.h"

namespace sluice::bench {
namespace {

Row share(const std::string& name, int part, int of) {
  Row row(name, of == 0 ? 100 : 100.0 * part / of, "%");
  row.n = std::max(of, 1);
  return row;
}

void add(Report& report, const std::string& factor, const Outcome& o, double goodput_at_capacity,
         Nanos after) {
  const auto counted = [&o](Row row) {
    row.n = o.sent;
    return row;
  };
  report.add(counted(Row(factor + "goodput", o.goodput, "1/s"))
                 .beside("1 x capacity", goodput_at_capacity)
                 .ratio_at_least(0.9));
  report.add(share(factor + "admitted", o.admitted, o.sent));
  report.add(share(factor + "admitted in time", o.in_time, o.admitted).at_least(95));
  if (o.refused > 0)
    report.add(share(factor + "429 with Retry-After", o.explained, o.refused).at_least(100));
  report.add(counted(Row(factor + "clients without an answer", o.unreadable, "")).at_most(0));
  report.add(Row(factor + "gateway's peak RSS", o.rss_mib, "MiB"));
  const bool never = o.normal_after_s < 0;
  report.add(Row(factor + "normal again after", never ? seconds(after) : o.normal_after_s, "s")
                 .at_most(2));
  report.note(factor + "sent " + std::to_string(o.sent) + ", 429 " + std::to_string(o.refused) +
              " with Retry-After " + std::to_string(o.retry_after_least) + " to " +
              std::to_string(o.retry_after_most) + " s, errors " + std::to_string(o.all.errors) +
              ", timed out " + std::to_string(o.all.timed_out) +
              (never ? "; not normal again while it was watched" : ""));
  if (o.all.wrong > 0) report.fail(factor + std::to_string(o.all.wrong) + " wrong answers");
  if (o.all.right == 0) report.fail(factor + "nothing was answered");
}

void overload_all(Report& report, Overload with) {
  double reference = 0;
  for (const int factor : {1, 2, 10, 50}) {
    with.factor = factor;
    const Result<Outcome> o = overload(with);
    if (!o.ok()) return report.fail(o.error().message);
    if (factor == 1) reference = o->goodput;
    if (reference <= 0) return report.fail("nothing was answered in time at 1 x capacity");
    add(report, std::to_string(factor) + " x ", *o, reference, with.after);
  }
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice;
  using namespace sluice::bench;
  Report report("overload", argc, argv);
  Overload with{.gateway = {beside_us("sluice"), "gateway"}};
  with.lasts = Seconds(int_argument(argc, argv, "--seconds", 15));
  with.seed = static_cast<uint64_t>(int_argument(argc, argv, "--seed", 1));
  report.note("seed " + std::to_string(with.seed));
  if (with.lasts > Nanos(0)) overload_all(report, with);
  below_capacity(report, with.seed);
  return report.finish();
}
