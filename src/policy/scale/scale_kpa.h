// scale_kpa: Knative's autoscaler (KPA), the default of Knative and KServe: a whole device per
// instance, as many as keep each at a target of requests at once, or of inferences per second.
//
//   stable, panic = ⌈mean over the stable or panic window ÷ target⌉, within [ready ÷ down rate,
//                   ready × up rate]
//   wanted        = stable                       else
//                 = the largest of both so far   in panic mode
//
// Panic mode begins when the panic window wants panic_threshold × the ready instances. It ends once
// a stable window has passed without that. The policy remembers a sample of each second. Without
// that memory it begins in panic mode with the instances that are ready, as Knative's after its own
// restart.
#pragma once

#include <map>

#include "model/action.h"
#include "policy/input.h"

namespace sluice::policy {

// Named after Knative's annotations and its config-autoscaler.
struct KpaSettings {
  bool metric_rps = false;          // the metric: inferences per second, not requests at once
  double target = 0;                // of an instance; 0: the file's
  double target_utilisation = 0.7;  // part of the target at which an instance is kept
  Nanos window = Seconds(60);       // stable
  Share panic_window{100};          // part of the stable one
  double panic_threshold = 2;
  double max_scale_up_rate = 1000;
  double max_scale_down_rate = 2;
  int initial_scale = 1;     // instances until they were ready once
  int activation_scale = 1;  // the fewest, unless none
  Nanos scale_down_delay{0};
  Nanos scale_to_zero_grace = Seconds(30);
  static std::span<const Setting<KpaSettings>> settings();
};

// The metric by second.
using KpaSamples = std::map<int64_t, double>;
// Adds a second's sample. A gap of a window or more forgets those before.
void record(KpaSamples& samples, int64_t second, double value, int window);
// Returns the mean over the window of so many seconds that ends at `now`, over the seconds that
// were seen if they are fewer. A second without a sample counts as 0.
double window_average(const KpaSamples& samples, int64_t now, int window);

struct KpaMetric {
  double stable = 0, panic = 0;  // means
  double target = 1;             // of an instance
  int ready = 0;                 // instances
  bool reachable = true;         // has traffic
};
struct KpaPanic {
  double since = -1;  // of the last breach, in seconds; negative: no panic
  int most = 0;       // the largest number wanted since
};
// Returns the instances wanted, before the function's bounds and scale_down_delay.
int wanted_instances(const KpaSettings& settings, const KpaMetric& metric, KpaPanic& panic,
                     double now);

std::vector<Action> scale_kpa(Input& input);

}  // namespace sluice::policy
