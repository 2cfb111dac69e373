// PodSlices: carries the annotations of this node's Pods to the agent's own API, so that any
// Pod has the slice that it asks for, and a changed annotation resizes it. A Pod for which no
// device has room is tried again, and has an Event that says so; until then nothing holds it, and a
// Pod on a GPU does not start: its containers wait for the annotation that names the GPU
// (pod_additions.h), which is written here.
//
// turn() is for one thread; the informers and the writer are thread-safe. It keeps nothing that it
// could not read again: the API takes the same Pod twice.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "control/kube/object_writer.h"
#include "control/kube/objects.h"
#include "control/kube/pod_annotations.h"
#include "kube/informer.h"
#include "wire/http/http.h"

namespace sluice::control {

class PodSlices {
 public:
  using Pods = kube::Informer<PodObject>;
  using Spaces = kube::Informer<NamespaceObject>;

  // `api`: the agent's. `spaces`: the namespaces whose Pods may have slices: the webhook bounds
  // what these hold, and is asked about no others. What is referred to outlives it.
  PodSlices(wire::Endpoint api, const Pods& pods, const Spaces& spaces, ObjectWriter& events)
      : api_(std::move(api), Seconds(5)), pods_(pods), spaces_(spaces), events_(events) {}

  // REQUIRES: the informers are complete
  void turn(UnixMillis wall);

 private:
  struct Held {
    PodSlice slice;  // that the agent holds, if it is taken
    bool taken = false;
    std::string gpu;  // its UUID; empty: none
    PodSlice asked;   // by the last try
    std::string why;  // that failed; empty: it did not
    UnixMillis tried = 0;
  };

  void hold(const PodObject& pod, const PodSlice& slice, UnixMillis wall);
  bool give_back(const std::string& uid);
  void give_back_former(const std::set<std::string>& there);
  // Reserves it, or resizes it, and notes the GPU.
  Result<void> take(const PodObject& pod, const PodSlice& slice, Held& held);
  void show_gpu(const PodObject& pod, const Held& held);
  void say(const PodObject& pod, const std::string& reason, const std::string& message,
           UnixMillis wall);

  wire::HttpClient api_;
  const Pods& pods_;
  const Spaces& spaces_;
  ObjectWriter& events_;
  std::map<std::string, Held> held_;  // by the Pod's UID
  bool knows_former_ = false;         // what an earlier life of ours had taken
};

}  // namespace sluice::control
