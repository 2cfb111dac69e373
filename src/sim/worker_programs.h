// The programs of training workers on a simulated node: what the node reports to them, and what
// they ask of it. One thread.
#pragma once

#include <string>

#include "model/instance.h"

namespace sluice::sim {

// Reported by the node. No call calls the node back: what follows comes as an event.
class WorkerPrograms {
 public:
  virtual ~WorkerPrograms() = default;
  virtual void started(const Instance& worker, const std::string& node) = 0;
  virtual void ready(const InstanceId& worker) = 0;
  virtual void asked_to_end(const InstanceId& worker) = 0;
  // The work of its last compute() has ended.
  virtual void computed(const InstanceId& worker) = 0;
  virtual void gone(const InstanceId& worker) = 0;
};

// Asked of the node. An instance that has ended is ignored.
class WorkerNode {
 public:
  virtual ~WorkerNode() = default;
  // Its device computes what takes `work` alone on the whole of it; computed() follows.
  // REQUIRES: the worker computes nothing.
  virtual void compute(const InstanceId& worker, Nanos work) = 0;
  // Its process ends by itself.
  virtual void end_worker(const InstanceId& worker) = 0;
};

}  // namespace sluice::sim
