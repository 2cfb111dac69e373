#include "control/profiles.h"

#include <algorithm>
#include <cmath>

#include "wire/json/json.h"

namespace sluice::control {

using nlohmann::json;

void Profiles::set(Profile profile) {
  if (!profile.content.empty())
    std::erase_if(all_, [&](const auto& entry) {
      const auto& [name, type] = entry.first;
      return name == profile.model && (type == profile.device || type.name.empty());
    });
  all_.insert_or_assign({profile.name(), profile.device}, std::move(profile));
}

const Profile* Profiles::at(const std::string& name, const DeviceType& type) const {
  if (name.empty()) return nullptr;
  const auto found = all_.find({name, type});
  return found == all_.end() ? nullptr : &found->second;
}

const Profile* Profiles::find(const ModelSpec& model, const DeviceType& type) const {
  for (const std::string& name : {model.content, model.path})
    for (const DeviceType& of : {type, DeviceType()})
      if (const Profile* found = at(name, of); found != nullptr) return found;
  return nullptr;
}

bool Profiles::superfluous(const Profile& profile) const {
  const Profile* known = find({.path = profile.model, .content = profile.content}, profile.device);
  return profile.estimated > 0 && known != nullptr && known->estimated == 0;
}

std::optional<Nanos> Profiles::fastest(const FunctionSpec& spec,
                                       std::span<const DeviceType> types) const {
  std::optional<Nanos> least;
  for (const DeviceType& type : types)
    if (const Profile* profile = find(spec.model_on(type), type);
        profile != nullptr && profile->estimated == 0)
      for (const MeasuredPoint& p : profile->points)
        if (p.at.batch == 1) least = std::min(least.value_or(p.median), p.median);
  return least;
}

bool Profile::in_time_alone(Nanos objective) const {
  return objective <= Nanos(0) || std::ranges::any_of(points, [&](const MeasuredPoint& p) {
           return p.at.batch == 1 &&
                  seconds(p.median) * live * (1 + estimated) <= seconds(objective);
         });
}

std::vector<MeasuredPoint> Profile::live_points() const {
  if (live == 1) return points;
  std::vector<MeasuredPoint> all = points;
  const auto longer = [&](Nanos t) { return Micros(std::llround(seconds(t) * live * 1e6)); };
  for (MeasuredPoint& q : all) {
    q.median = std::max<Nanos>(longer(q.median), Micros(1));
    q.p95 = longer(q.p95);
    q.throughput /= live;
  }
  return all;
}

json to_json(const Profile& p) {
  json points = json::array();
  for (const MeasuredPoint& q : p.points)
    points.push_back({{"batch", q.at.batch},
                      {"sm", q.at.sm.permille},
                      {"quota", q.at.quota.permille},
                      {"latency_p50_us", q.median.count() / 1000},
                      {"latency_p95_us", q.p95.count() / 1000},
                      {"throughput", q.throughput},
                      {"filled", q.filled},
                      {"utilisation", q.utilisation.permille},
                      {"sm_occupancy", q.occupancy.permille}});
  return {{"model", p.model},
          {"content", p.content},
          {"device_type", p.device.name},
          {"function", to_string(p.function)},
          {"memory", p.memory},
          {"points", points},
          {"estimated", p.estimated},
          {"live", p.live},
          {"conditions", p.conditions},
          {"measured_at", p.measured_at}};
}

Result<Profile> profile_from(const json& j) {
  wire::Fields f(j, "profile");
  Profile p{.model = f.text("model"),
            .content = f.text("content"),
            .device = {f.text("device_type")},
            .function = function_name(f.text("function")),
            .memory = f.integer("memory", 0, 0, Bytes{1} << 60),  // sums do not overflow
            .points = {},
            .estimated = f.number("estimated", 0, 0, 10),
            .live = f.number("live", 1, 1e-6, 1e6),
            .conditions = f.text("conditions"),
            .measured_at = f.integer("measured_at", 0, 0, INT64_MAX)};
  for (const json& item : f.list("points")) {
    wire::Fields q(item, "point");
    MeasuredPoint point;
    point.at.batch = static_cast<int>(q.integer("batch", 1, 1, 1024));
    point.at.sm = {static_cast<int>(q.integer("sm", 1000, 1, 1000))};
    point.at.quota = {static_cast<int>(q.integer("quota", 1000, 1, 1000))};
    point.median = Micros(q.integer("latency_p50_us", 0, 1, INT64_MAX / 1000));
    point.p95 = Micros(q.integer("latency_p95_us", 0, 0, INT64_MAX / 1000));
    point.throughput = q.number("throughput", 0, 0, 1e12);
    point.filled = q.boolean("filled", false);
    point.utilisation = {static_cast<int>(q.integer("utilisation", 0, 0, 1000))};
    point.occupancy = {static_cast<int>(q.integer("sm_occupancy", 0, 0, 1000))};
    SLUICE_ASSIGN(checked, q.finish(point));
    p.points.push_back(checked);
  }
  if (p.model.empty()) f.fail("model", "must not be empty");
  return f.finish(p);
}

}  // namespace sluice::control
