// WorkModel's weights as JSON: numbers with 6 digits, and where they come from.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "predict/work_model.h"

namespace sluice::learn {

// What the weights were learned from.
struct Provenance {
  std::string device;  // "NVIDIA V100"
  std::string data;    // what it is called and where it comes from
  int models = 0;
  int64_t points = 0;
  uint64_t seed = 0;
  // The mean error of a model of another family, without any trial: as a part of the measured time.
  // From leaving whole families out; where that was not done, what others had.
  double unseen_error = 0.4;
};

struct Learned {
  Provenance from;
  predict::WorkWeights weights;
};

nlohmann::json to_json(const Learned&);

// Returns kInvalid with the field: a part of another size than the network's, a number that is not
// finite, a throttle that does not end at the whole.
Result<Learned> learned_from(const nlohmann::json&);

}  // namespace sluice::learn
