// The loop's ports, as a main joins them: adapters of one place (local_ports.h: this machine's), of
// several, or in memory. Each header states its port's contract and threads.
#pragma once

#include "base/clock.h"
#include "control/cluster.h"
#include "control/desired_state.h"
#include "control/journal.h"
#include "model/predictor.h"

namespace sluice::control {

class Models;
class Training;

// What they refer to outlives the loop.
struct Ports {
  DesiredState& desired;
  Journal& journal;
  Cluster& cluster;
  Predictor& predictor;  // learns the stored profiles and new ones; only the loop's thread calls it
  const Clock& clock;
  Training* training = nullptr;  // null: training functions stay queued
  Models* models = nullptr;      // null: a start has a model's path as the specification has it
};

}  // namespace sluice::control
