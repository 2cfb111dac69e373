// Users' functions: a model and an objective, or a training job. A Function is its name and its
// newest specification; every change makes an immutable Revision. Plain values;
// control/spec/function_file parses them.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "model/birth.h"
#include "model/device.h"
#include "model/slice.h"
#include "model/step_model.h"

namespace sluice {

// A function's identity. Ordered, so that listings and ties are the same everywhere.
struct FunctionName {
  std::string space = "default";  // the namespace
  std::string name;

  auto operator<=>(const FunctionName&) const = default;
};
std::string to_string(const FunctionName&);           // "namespace/name"
FunctionName function_name(const std::string& text);  // reverses it; no slash: "default"

// As clients call it, /v2/models/SERVED/infer: "name" in the default namespace, else
// "namespace.name". A name may hold dots: `apply` refuses two functions that are served alike.
std::string served_name(const FunctionName&);

// Latency: at `percentile`, from intended send to the last byte of the answer. Rate: inferences a
// second that are always expected, however few are asked for.
struct Objective {
  Nanos latency{0};
  double percentile = 95;
  double rate = 0;

  bool operator==(const Objective&) const = default;
};

// A function that answers requests.
struct InferenceSpec {
  ModelSpec model;                     // where there are variants: one of them, which describes all
  std::vector<ModelVariant> variants;  // each of a type of its own
  std::string quantization;            // chooses among the variants that its file lists; empty: all
  int batch = 0;                       // the same, by the most that they take at a time; 0: all
  Objective slo;
  int min_replicas = 1;
  int max_replicas = 0;           // 0: no bound
  int initial_scale = 0;          // instances until as many have been ready; 0: min_replicas
  int container_concurrency = 0;  // requests an instance may have at once; 0: its batch size
  int scale_target = 0;           // requests that an instance should have at once; 0: the policy's
  Nanos scale_to_zero_after = Seconds(60);  // without a request, where min_replicas is 0
  int max_queue = 1000;                     // waiting requests; beyond, 429
  bool admit_all = false;                   // queue also what cannot meet its objective; else 429
  Nanos timeout = Seconds(60);              // a request's whole life
  Batching batching;
  int canary_traffic_percent = 100;  // of the traffic, to the newest revision
  std::string token;                 // callers must bear it; empty: the platform's rule

  bool operator==(const InferenceSpec&) const = default;
};

// An elastic training job. The platform chooses its workers, their devices, the batch and the
// learning rate while it runs; each sample is used once an epoch.
struct TrainingSpec {
  ModelSpec model;  // TorchScript with a method `loss`; path empty: a command's own
  std::vector<std::string> command;         // of each worker; empty: the trainer, with `model`
  bool elastic = false;                     // the command joins by itself; else it is run anew
  std::string dataset;                      // a folder of arrays, for the trainer
  int epochs = 1;                           // the job's length
  int min_workers = 1;                      // fewer make no progress
  int max_workers = 0;                      // 0: as many as there are devices
  BatchRange batch{.least = 0, .most = 0};  // of a step; 0: the trainer's
  double learning_rate = 0;  // at batch.least, and linear in the batch; 0: the trainer's
  bool paused = false;       // its workers leave, with a checkpoint
  int keep_checkpoints = 3;  // the newest ones
  std::string plan;          // a plan's name; empty: the platform's, else its bundle's

  bool operator==(const TrainingSpec&) const = default;
};

// The common fields of all functions, and those of the kind.
struct FunctionSpec {
  FunctionName name;
  int priority = 0;                                    // larger wins when a device is full
  Bytes memory = 0;                                    // of one instance; 0: measured
  Bytes gpu_memory = 0;                                // the same, on a GPU; 0: `memory`
  std::string mps;                                     // "on": only on GPUs that MPS can divide;
                                                       // "off": only all of a GPU's SMs
  std::string device;                                  // "cpu", "cuda" or "any"; empty: "cpu"
  std::vector<std::string> device_types;               // preferred first; empty: all are allowed
  std::string policy;                                  // a bundle's name; empty: the platform's
  std::map<std::string, std::string> policy_settings;  // of that bundle, in place of its own
  std::optional<Slice> slice;                          // what `fixed` holds, and where others start
  std::variant<InferenceSpec, TrainingSpec> kind;

  bool is_inference() const { return std::holds_alternative<InferenceSpec>(kind); }
  // The function must be of that kind: the process ends otherwise.
  const InferenceSpec& inference() const;
  InferenceSpec& inference();
  const TrainingSpec& training() const;
  TrainingSpec& training();
  // Of either kind; a training function that brings its own has one without a path.
  const ModelSpec& model() const { return is_inference() ? inference().model : training().model; }
  ModelSpec& model() { return is_inference() ? inference().model : training().model; }
  // The one whose file instances on devices of the type have; nullptr: there are no variants, or
  // none for that type.
  const ModelVariant* variant_on(const DeviceType& type) const;
  // That variant's model, else the function's one.
  const ModelSpec& model_on(const DeviceType& type) const;
  // Every model that instances may have, whatever their device.
  std::vector<const ModelSpec*> models() const;
  // This function as it is on devices of the type: with that model, and no variants.
  FunctionSpec on(const DeviceType& type) const;
  Bytes memory_on(DeviceKind kind) const {
    return kind == DeviceKind::kCuda && gpu_memory > 0 ? gpu_memory : memory;
  }
  // Whether its instances may be placed on some device of the kind; on this one.
  bool runs_on(DeviceKind kind) const {
    return device == "any" || (device == "cuda") == (kind == DeviceKind::kCuda);
  }
  bool may_use(const Device& d) const;
  bool may_use(const DeviceType& type) const;  // as far as its type says

  bool operator==(const FunctionSpec&) const = default;
};

// Returns the most requests that an instance on a device of the type puts together.
int most_at_once(const FunctionSpec& spec, const DeviceType& type);

struct Revision {
  FunctionName function;
  int number = 0;  // 1, 2, … per function
  FunctionSpec spec;
  UnixMillis created = 0;

  bool operator==(const Revision&) const = default;
};
std::string revision_id(const FunctionName&, int number);  // "namespace/name@3"

}  // namespace sluice
