// What a job's controller and its workers say to each other: one JSON object a line, over a stream
// socket (docs/design/training.md).
//
// Plain values; reading names the field that is wrong.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "train/noise_scale.h"
#include "train/samples.h"

namespace sluice::train {

// 2: other parts of a step; workers of two versions in one group would use samples twice. Pings.
inline constexpr int kProtocolVersion = 2;
inline constexpr size_t kLongestMessage = 64 * 1024;
inline constexpr size_t kMostProfiledBuckets = 64;

// ---- from a worker -----------------------------------------------------------------------------

// The first: which worker of which job. `generation` and `step`: of the parameters that it still
// has from before a controller's restart; step −1: it has none.
struct Hello {
  std::string job, key, worker;
  int version = kProtocolVersion;
  int64_t generation = 0, step = -1;
};
// It has read model and data, and can be given a rank.
struct Loaded {
  int64_t samples = 0;
  int64_t parameter_bytes = 0;
};
// It is out of its group, with the parameters of `step`. `why`: "halted", as all were at one step;
// "lost", because another did not answer.
struct Stopped {
  int64_t generation = 0, step = -1;
  std::string why;
};
// From rank 0, a few times a second.
struct Progress {
  int64_t generation = 0;
  JobPosition at;
  double loss = 0;  // mean over the last step's samples
  int batch = 0;
  // Of the last step, seconds; `wait`: for the group, after the worker's own gradients were ready.
  double step_seconds = 0, wait_seconds = 0;
  double samples_per_second = 0;  // since the message before
  double learning_rate = 0;       // of that step; 0: the worker does not say
  double noise = 0;               // φ; 0: unknown
  std::string trouble;            // with a checkpoint; empty: none
};
// How a step of that group passes, by its first ones: from rank 0, once a group.
struct Profiled {
  int64_t generation = 0;
  int batch = 0;  // of a step, over all ranks
  int steps = 0;  // that were measured
  // By bucket of gradients, in the order of the backward pass; see kMostProfiledBuckets.
  std::vector<double> bytes;
  std::vector<double> ready_seconds;  // when they are complete, from the step's begin; ascending
  std::vector<double> sum_seconds;    // their all-reduce; 0 in a group of one
  double compute_seconds = 0;         // from the step's begin to the end of the backward pass
  double optimizer_seconds = 0;
};
struct Saved {
  JobPosition at;
  std::string path;
  int64_t bytes = 0;
  double seconds = 0;
};
struct Leaving {};  // it was told to end, and asks for a step to leave after
struct Finished {
  int64_t step = 0;
  std::string model;  // the trained model's file
};
// The job cannot go on. `for_good`: nor could another worker, from the newest checkpoint.
struct Failed {
  std::string error;
  bool for_good = false;
};
// Of the key-value store in which the workers of a generation find each other. Values are text.
struct StoreSet {
  std::string key, value;
};
struct StoreGet {  // answered by StoreValue once it is set
  std::string key;
};
struct Pong {};  // the answer to Ping, at once, also from the midst of a step

using WorkerMessage = std::variant<Hello, Loaded, Stopped, Progress, Profiled, Saved, Leaving,
                                   Finished, Failed, StoreSet, StoreGet, Pong>;

// ---- from the controller -----------------------------------------------------------------------

// The answer to Hello: the job.
struct Welcome {
  int64_t term = 0;  // of the controller; a worker obeys none with a lower one than it has seen
  std::string model, dataset, artifacts;
  int64_t epochs = 1;
  uint64_t seed = 1;
  int batch = 0;             // the least of a step: what the learning rate is for
  double learning_rate = 0;  // at that batch
  double momentum = 0.9;
  int least_part = 2;  // samples of a worker in a step; fewer only if the whole step has fewer
};
// Form generation `generation` as `rank` of `world` workers.
struct Form {
  int64_t generation = 0;
  int rank = 0, world = 1;
  int batch = 0;
  bool sync = false;   // rank 0 has newer parameters than another one, and hands its own to all
  std::string resume;  // the checkpoint that rank 0 begins with; empty: with what it has
};
// Leave the generation's group at a step that all agree on.
struct Halt {
  int64_t generation = 0;
};
// Go on with that batch, from a step that all agree on.
struct Adapt {
  int batch = 0;
};
struct Leave {
  bool save = false;  // with a checkpoint before
};
struct StoreValue {
  std::string key, value;
};
struct Ping {};   // is the worker there? A stopped one does not answer
struct Refused {  // the connection ends; the worker does, too
  std::string error;
};

using ControllerMessage =
    std::variant<Welcome, Form, Halt, Adapt, Leave, StoreValue, Ping, Refused>;

// ---- as text -----------------------------------------------------------------------------------

std::string to_line(const WorkerMessage&);      // with its newline
std::string to_line(const ControllerMessage&);  // with its newline
// Texts for people in it are printable; keys and values of the store are as they were sent.
Result<WorkerMessage> worker_message_from(std::string_view line);
Result<ControllerMessage> controller_message_from(std::string_view line);

}  // namespace sluice::train
