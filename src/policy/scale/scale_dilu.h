// scale_dilu: Dilu's lazy scaling out and in (ASPLOS '25, §3.4.2), over the request and limit that
// its profiling finds (growth_search.h). The arbiter carries a burst at once, between the two; an
// instance is started or stopped once the load has been different for long:
//
//   out, if at least scale_out_after (φ_out = 20) of the last `window` (40) seconds asked for more
//        than the instances' throughput: for the mean of these seconds, all at once; then the
//        window begins anew
//   in,  if more than scale_in_after (φ_in = 30) of them asked for less than the throughput of one
//        instance less: one instance
//
// Throughputs are those of the requests, from the profile. Starting instances count. The last
// instance stays: no second asks for less than nothing.
//
// Profiling rests on the profile of the enforcement in question, here shares of time on the whole
// width (sm = 1000). `sm_profile` reads another one, over SMs under MPS, as if such a share were
// elastic; each reason says so. On several types of device the slowest one's star holds, as Dilu
// assumes equal devices.
#pragma once

#include "model/action.h"
#include "policy/input.h"

namespace sluice::policy {

struct DiluSettings {
  double slo_fraction = 0.5;  // of the objective, within which a trial's batch is in time
  Share share_step{100};
  double limit_factor = 2;   // limit ÷ request
  int window = 40;           // seconds
  int scale_out_after = 20;  // of these, at least
  int scale_in_after = 30;   // of these, more than
  double tolerance = 0;      // of slow iterations; 0: as the arbiter has it
  bool sm_profile = false;   // reads the profile's shares of SMs
  static std::span<const Setting<DiluSettings>> settings();
};

// What a window of seconds asks for.
struct LazyScale {
  int above = 0;     // seconds above the throughput
  int below = 0;     // below that of one instance less
  double asked = 0;  // mean of those above, inferences per second
  int more = 0;      // instances to start; negative: to stop
};
// `one` is an instance's throughput, `all` that of all instances. 0: unknown, so nothing changes.
LazyScale lazy_scale(const DiluSettings& settings, std::span<const double> seconds, double all,
                     double one);

std::vector<Action> scale_dilu(Input& input);

}  // namespace sluice::policy
