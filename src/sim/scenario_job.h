// A training job of a scenario: what the loop is given, and what its steps truly take. Plain
// values.
#pragma once

#include <string>
#include <vector>

#include "model/function.h"

namespace sluice::sim {

// What jobs of one kind have in common.
struct JobModel {
  std::string name;
  int64_t samples = 1;        // of an epoch
  int epochs = 0;             // of a listed job that does not say; 0: the list does
  BatchRange batch;           // of a step
  StepModel step;             // true times, on a whole device
  std::vector<double> noise;  // φ at evenly spaced parts of a job; empty: all batches count alike
  Bytes memory = 0;           // of a worker
};

struct ScenarioJob {
  FunctionSpec spec;  // a training function, with the model's batch and memory
  Nanos arrives{0};
  JobModel model;
};

// How jobs of a scenario run, apart from their models.
struct JobPhysics {
  Nanos join = Millis(250);   // until the first step of a generation with new workers
  Nanos leave = Millis(100);  // … and of one without
  // Workers compute so long between two sums of the simulation, or one step if that is longer.
  Nanos round = Millis(250);
  // What one job's steps took is known of later jobs of its model.
  bool shares_steps = true;
  // A job is over once its samples × their efficiency are those of its epochs; else, as live, once
  // every epoch is trained.
  bool by_goodput = false;
};

// Returns φ after that part of the job, which is from 0 to 1; 0: unknown.
double noise_at(const JobModel& model, double part);

}  // namespace sluice::sim
