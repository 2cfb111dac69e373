#include <algorithm>
#include <cmath>

#include "base/words.h"
#include "sim/job_reader.h"

namespace sluice::sim {

using control::Fields;

namespace {
constexpr double kMostSamplesInAll = 1e15;  // of a job
}

void JobReader::list(Fields& f) {
  ListRules rules;
  f.need("file", "a CSV file with a job in each line");
  rules.path = read_word(f, "file");
  list_columns(f, rules);
  list_models(f, rules);
  f.integer("length", rules.length, 1, kMostEpochs);
  devices_of(f, rules.least_devices, rules.most_devices);
  policy(f, rules.policy);
  plan(f, rules.plan, rules.settings);
  f.number("speed", rules.speed, 0.001, 100'000);
  f.number("scale", rules.scale, 1e-6, 1000);
  int skip = 0, most = static_cast<int>(kMostJobs);
  f.integer("skip", skip, 0, 1'000'000);
  f.integer("most", most, 1, static_cast<int>(kMostJobs));
  rules.options.skip = static_cast<size_t>(skip);
  rules.options.most = static_cast<size_t>(most);
  if (rules.path.empty()) return;
  const auto rows = trace::read_job_list(folder_ / rules.path, rules.options);
  if (!rows.ok()) return f.complain("file", rows.error().message);
  for (const trace::ListedJob& row : *rows)
    if (!listed_job(f, rules, row)) return;
}

void JobReader::list_columns(Fields& f, ListRules& rules) {
  read_section(part(f), "columns", [&](Fields& c) {
    for (const std::string& field : trace::job_list_fields())
      if (c.has(field)) rules.options.columns[field] = read_word(c, field);
  });
}

void JobReader::list_models(Fields& f, ListRules& rules) {
  const YAML::Node names = f.take("models");
  if (!names.IsDefined()) return;
  if (!names.IsSequence() || names.size() == 0)
    return f.complain("models", "must be a list of names of jobModels");
  for (const YAML::Node& item : names) {
    const std::string name = item.IsScalar() ? item.Scalar() : "";
    const JobModel* known = find_model(name);
    if (known == nullptr) return f.complain("models", not_found("model", name, model_names()));
    rules.models.push_back(known);
  }
}

// Returns the samples that the job trains in its recorded time on its recorded devices.
double JobReader::samples_within(const JobModel& m, const trace::ListedJob& row) const {
  const int count = std::max(row.devices, 1);
  const auto same_node = [&](const DevicePlan& d) {
    return d.device.node == out_.cluster.devices.front().device.node;
  };
  const auto& devices = out_.cluster.devices;
  const auto per_node = std::max<long>(std::count_if(devices.begin(), devices.end(), same_node), 1);
  const Workers workers{.count = count,
                        .nodes = static_cast<int>((count + per_node - 1) / per_node)};
  const BatchChoice best = best_batch(m.step, workers, noise_at(m, 0.5), m.batch);
  const double rate = out_.job_physics.by_goodput ? best.goodput : best.throughput;
  return seconds(row.duration) * rate;
}

// Returns false after a problem that the lines behind it would have as well.
bool JobReader::listed_job(Fields& f, const ListRules& rules, const trace::ListedJob& row) {
  ScenarioJob job;
  job.arrives = std::chrono::round<Nanos>(row.submitted / rules.speed);
  if (job.arrives >= out_.duration) return true;
  const auto refuse = [&](const std::string& key, const std::string& why) {
    f.complain(key, rules.path + ": " + why);
    return false;
  };
  const JobModel* model = find_model(row.model);
  if (!row.model.empty() && rules.models.empty() && model == nullptr)
    return refuse("file", not_found("model", row.model, model_names()));
  if (!rules.models.empty()) model = rules.models[random_.below(rules.models.size())];
  if (model == nullptr)
    return refuse("models", "the list has no column of models: name those that its jobs draw from");
  job.model = *model;
  const double epochs = row.epochs > 0      ? row.epochs
                        : model->epochs > 0 ? model->epochs
                                            : rules.length;
  const bool timed = row.epochs <= 0 && row.duration > Nanos(0);
  const double whole = static_cast<double>(model->samples);
  const double samples = std::min(
      rules.scale * (timed ? samples_within(*model, row) : epochs * whole), kMostSamplesInAll);
  if (!timed && epochs <= 0)
    return refuse("length", "a job has neither epochs nor a duration, and the list no length");
  TrainingSpec training;
  training.epochs = static_cast<int>(std::clamp(std::round(samples / whole), 1.0, 1e6));
  job.model.samples = std::max<int64_t>(std::llround(samples / training.epochs), 1);
  training.plan = rules.plan;
  training.min_workers = rules.least_devices;
  training.max_workers = row.devices;
  if (rules.most_devices > 0) training.max_workers = std::min(row.devices, rules.most_devices);
  if (training.max_workers > devices())
    return refuse("mostDevices", "a job has " + std::to_string(row.devices) +
                                     " devices; there are " + std::to_string(devices()) +
                                     ". mostDevices bounds those of each job");
  if (training.max_workers > 0)
    training.max_workers = std::max(training.max_workers, training.min_workers);
  job.spec.name.name =
      !row.name.empty() ? row.name : model->name + "-" + std::to_string(out_.jobs.size());
  job.spec.priority = row.priority;
  job.spec.policy = rules.policy;
  job.spec.policy_settings = rules.settings;
  job.spec.device = "any";
  job.spec.kind = std::move(training);
  return add(f, "file", std::move(job));
}

}  // namespace sluice::sim
