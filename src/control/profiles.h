// Measurements of `sluice profile`, by model and type of device, with what live instances have
// taught since. A model is named by its content, so that a moved file keeps its profile and a
// replaced one does not take it. Profiles of earlier versions lack both names: they are found by
// the model's path, and count for every type of device of the platform (earlier versions had one).
// Where nothing was measured, a profile may be an estimate. A plain value, not thread-safe.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/predictor.h"

namespace sluice::control {

struct Profile {
  std::string model;      // its path at the measurement
  std::string content;    // of model.content then; empty: found by the path
  DeviceType device;      // no name: any type
  FunctionName function;  // its function at the measurement; for people
  Bytes memory = 0;       // of one instance, peak; 0: not measured
  std::vector<MeasuredPoint> points;
  double estimated = 0;    // as Measurement's
  double live = 1;         // live instances need so many times as long as the points say
  std::string conditions;  // machine and versions at the measurement, for people
  UnixMillis measured_at = 0;

  bool operator==(const Profile&) const = default;
  // Whether a request alone on a whole device keeps the objective, as live instances need it and
  // also if an estimate is wrong by as much as expected. 0: there is no objective.
  bool in_time_alone(Nanos objective) const;
  // Returns the points in the time that live instances need.
  std::vector<MeasuredPoint> live_points() const;
  const std::string& name() const { return content.empty() ? model : content; }
};

nlohmann::json to_json(const Profile& p);
// Returns kInvalid with the field, its value and the allowed range.
Result<Profile> profile_from(const nlohmann::json& j);

class Profiles {
 public:
  // Replaces the profile of the same model and type. One with a content also replaces what was
  // measured by its path.
  void set(Profile profile);

  // nullptr: not measured.
  const Profile* find(const ModelSpec& model, const DeviceType& type) const;

  // Returns whether it is an estimate of what was measured already, by whichever name.
  bool superfluous(const Profile& profile) const;

  // Returns the shortest median of one request measured on any of these types.
  std::optional<Nanos> fastest(const FunctionSpec& spec, std::span<const DeviceType> types) const;

  // By name and type.
  using Key = std::pair<std::string, DeviceType>;
  const std::map<Key, Profile>& all() const { return all_; }

 private:
  const Profile* at(const std::string& name, const DeviceType& type) const;

  std::map<Key, Profile> all_;
};

}  // namespace sluice::control
