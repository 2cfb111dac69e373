// The meter's part in hints (wire/permit_hints.h): where a thread's stretches of work begin and
// end, which of them are iterations, and by when one should be over.
#include "hook/meter.h"
#include "hook/meter_parts.h"

namespace sluice::hook {

// Due is what began last, where several threads have work; the first of them that has waited says
// that nothing is.
Stretch Meter::begin_stretch(sluice_attachment* at, uint32_t thread) {
  if (!lock()) return {};
  const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
  const Stretch stretch{.begun_ns = now, .work_ns = submitted_by(thread)};
  sluice_say_due(at, now + sluice_slo(at));
  unlock();
  return stretch;
}

// A lane that became another's lost its count: then the sum says nothing.
void Meter::end_stretch(sluice_attachment* at, uint32_t thread, const Stretch& stretch) {
  if (!lock()) return;
  const uint64_t now = sluice_clock(CLOCK_MONOTONIC), cycle = now - stretch.begun_ns;
  const uint64_t submitted = submitted_by(thread);
  const uint64_t work = submitted > stretch.work_ns ? submitted - stretch.work_ns : 0;
  sluice_say_due(at, 0);
  if (iterations_.is_one(cycle, work, now))
    sluice_say_iteration(at, cycle, Iterations::kind_of(work));
  unlock();
}

uint64_t Meter::submitted_by(uint32_t thread) {
  uint64_t sum = 0;
  lanes_.for_each([&](const Lane& lane) { sum += lane.owner == thread ? lane.done() : 0; });
  return sum;
}

}  // namespace sluice::hook
