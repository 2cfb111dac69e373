// Carries changes of Pods into the records of their instances. A Pod that is being deleted drains
// its instance, whichever client deletes it. One that has ended says why.
//
// Belongs to the daemon's loop.
#pragma once

#include "node/live_instances.h"
#include "node/pods.h"

namespace sluice::node {

class PodChanges {
 public:
  // All outlive it.
  PodChanges(Pods& pods, Records& records, LiveInstances& live);
  ~PodChanges() { pods_.listen(nullptr); }
  PodChanges(const PodChanges&) = delete;

 private:
  void follow(const InstanceId& id);

  Pods& pods_;
  Records& records_;
  LiveInstances& live_;
};

}  // namespace sluice::node
