// What all-reduces took on the machines of this platform, by workers, by one node or several, and
// by bytes, and the model of an all-reduce that follows (predict/collective.h). All jobs share one:
// the link is the same for each of them.
//
// A job's program reports its own times, which nothing confirms. So the averages forget, and no
// time counts that would be faster than memory.
//
// One thread, or under a lock.
#pragma once

#include <map>
#include <optional>
#include <tuple>

#include "model/step_model.h"
#include "predict/collective.h"

namespace sluice::train {

class AllReduceHistory {
 public:
  // One worker, no bytes, or a time that cannot be: counts for nothing.
  void add(const Workers& workers, double bytes, double seconds);
  // Returns the model of a group on one node, or on several; nullopt: none was measured.
  std::optional<predict::CollectiveModel> model(bool several_nodes) const;

 private:
  struct Mean {
    double bytes = 0, seconds = 0;
    int count = 0;
  };

  // By workers, whether on several nodes, and the power of two of the bytes.
  std::map<std::tuple<int, bool, int>, Mean> means_;
};

}  // namespace sluice::train
