// Every entry point of the test driver, each with the widest signature of all: as many words and
// reals as any caller passes. Weak, so that recording_driver.cc can define some of them.
#include "tests/support/recording_driver.h"

using sluice::hook::Call;
using sluice::hook::Entry;
using sluice::hook::RecordingDriver;

extern "C" {

RecordingDriver recording_driver;

static int record(Entry entry, const Call& call) {
  __atomic_add_fetch(&recording_driver.calls, 1u, __ATOMIC_SEQ_CST);
  recording_driver.last = call;
  return sluice::hook::returned_by(static_cast<unsigned>(entry));
}

using Word = unsigned long;
using Real = double;
#define SLUICE_PASSED(name)                                                                      \
  __attribute__((weak)) int name(Word a, Word b, Word c, Word d, Word e, Word f, Word g, Word h, \
                                 Word i, Word j, Word k, Word l, Word m, Word n, Real p, Real q, \
                                 Real r, Real s, Real t, Real u, Real v, Real w) {               \
    return record(Entry::name, {static_cast<unsigned>(Entry::name),                              \
                                {a, b, c, d, e, f, g, h, i, j, k, l, m, n},                      \
                                {p, q, r, s, t, u, v, w}});                                      \
  }
#define SLUICE_HOOKED(name, symbol, version, flags) SLUICE_PASSED(name)
#include "hook/entry_points.inc"

}  // extern "C"
