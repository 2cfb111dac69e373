// A worker of a job: reads model and data, joins generations, trains, and leaves when it is told
// to.
//
// Every step, each rank computes the gradients of its part of the step's samples; all sum them;
// each takes the same step. A generation ends at a step on which all ranks agree, as the wish to
// end it is summed with the gradients. So parameters and position are equal on all ranks, but for
// one step where a rank is lost within one: then those that have the sums hand their parameters to
// the others.
#pragma once

#include <atomic>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "train/messages.h"
#include "wire/http/endpoint.h"

namespace sluice::train {

struct TrainerSettings {
  wire::Endpoint controller;
  std::string job, key, worker;
  int ready_port = 0;  // listened at once model and data are read; 0: none
  Nanos checkpoint_every = Seconds(30);
  Nanos report_every = Millis(200);
  Nanos reconnect_patience = Seconds(60);  // while no controller answers
  Nanos leave_patience = Seconds(13);  // from the wish to end until the worker ends without leave
};

// Runs until the job is finished, the worker has left, or it cannot go on. `ending`: set by a
// signal's handler, asks to leave.
Result<void> train(const TrainerSettings& settings, const Clock& clock,
                   const std::atomic<bool>& ending);

}  // namespace sluice::train
