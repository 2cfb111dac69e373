// SliceNotes: keeps the annotation sluice.dev/slice of functions' Pods on this node at what they
// hold, after resizes too. For people; nothing reads it.
//
// turn() is for one thread. A caller that calls it once a second writes each Pod as often at most.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "control/kube/object_writer.h"
#include "control/kube/objects.h"
#include "kube/informer.h"

namespace sluice::control {

class SliceNotes {
 public:
  // What is referred to outlives it.
  SliceNotes(std::string node, const kube::Informer<PodObject>& pods, ObjectWriter& writer)
      : node_(std::move(node)), pods_(pods), writer_(writer) {}

  // `state`: the agent's (GET /v1/state).
  void turn(const nlohmann::json& state);

 private:
  const std::string node_;
  const kube::Informer<PodObject>& pods_;
  ObjectWriter& writer_;
};

}  // namespace sluice::control
