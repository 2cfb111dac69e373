#include "tests/support/overload_case.h"

#include <algorithm>

namespace sluice::bench {
namespace {

bool in_time(const Asked& a) {
  return a.right && a.latency() <= kObjective;
}

// Returns the first second, tried every quarter second, in which 99 % are in time.
double normal_after(const std::vector<Asked>& asked, Time from, Nanos span) {
  for (Nanos begin{0}; begin + Seconds(1) <= span; begin += Millis(250)) {
    int sent = 0, good = 0;
    for (const Asked& a : asked) {
      if (a.intended < from + begin || a.intended >= from + begin + Seconds(1)) continue;
      ++sent;
      good += in_time(a);
    }
    if (sent > 0 && good * 100 >= sent * 99) return seconds(begin);
  }
  return -1;
}

void count(Outcome& o, const Asked& a) {
  ++o.sent;
  o.in_time += in_time(a);
  if (a.status == 429) {
    ++o.refused;
    if (a.retry_after < 0) return;
    o.retry_after_least =
        o.explained == 0 ? a.retry_after : std::min(o.retry_after_least, a.retry_after);
    o.retry_after_most = std::max(o.retry_after_most, a.retry_after);
    ++o.explained;
  } else if (a.end == End::kBroken) {
    ++o.unreadable;
  } else if (a.status != 503) {
    ++o.admitted;
  }
}

}  // namespace

Result<Outcome> overload(const Overload& with) {
  raise_descriptors();
  GatewayBed bed(with.gateway, with.service);
  SLUICE_TRY(bed.ready());
  const double capacity = bed.capacity();
  const std::vector<Asked> asked =
      play({.port = bed.port(),
            .paths = {GatewayBed::kInfer},
            .ask = questions(64, with.seed),
            .plan = {{with.lasts, with.factor * capacity}, {with.after, 0.7 * capacity}},
            .seed = with.seed,
            .patience = Seconds(30),
            .in_two_pieces = 200});
  if (asked.empty()) return Error{ErrorKind::kInternal, "the load sent nothing"};
  Outcome o{.all = tally(asked), .rss_mib = peak_rss_mib(bed.gateway())};
  const Time end = asked.front().intended + with.lasts;
  for (const Asked& a : asked)
    if (a.intended < end) count(o, a);
  o.goodput = o.in_time / seconds(with.lasts);
  o.normal_after_s = normal_after(asked, end, with.after);
  return o;
}

}  // namespace sluice::bench
