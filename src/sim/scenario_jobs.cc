#include "sim/scenario_jobs.h"

#include <algorithm>

#include "base/words.h"
#include "control/spec/function_file.h"
#include "model/quantity.h"
#include "policy/bundle.h"
#include "sim/job_reader.h"

namespace sluice::sim {
namespace {

using control::Fields;

constexpr int kMostSamples = 1'000'000'000, kMostBatch = 10'000'000;
constexpr size_t kMostNoiseScales = 1000;
constexpr double kLongestStep = 3600, kShortestStep = 1e-6;
constexpr double kLeastNoise = 0.1, kMostNoise = 1e7;  // what published measurements span
constexpr Nanos kLatestJob = std::chrono::hours(24 * 30);

}  // namespace

void JobReader::read() {
  read_section(spec_, "training", [this](Fields& f) { physics(f); });
  read_each(spec_, "jobModels", 1, [this](Fields& f) {
    JobModel m;
    f.need("name", "the model's name, such as resnet18");
    f.text("name", m.name);
    if (find_model(m.name) != nullptr) f.complain("name", "\"" + m.name + "\" stands twice");
    model(f, m);
    models_.push_back(std::move(m));
  });
  read_each(spec_, "jobs", 1, [this](Fields& f) { job(f); });
  read_each(spec_, "jobLists", 1, [this](Fields& f) { list(f); });
  const auto before = [](const ScenarioJob& a, const ScenarioJob& b) {
    return a.arrives < b.arrives;
  };
  std::stable_sort(out_.jobs.begin(), out_.jobs.end(), before);
}

void JobReader::physics(Fields& f) {
  JobPhysics& p = out_.job_physics;
  const bool restarts = f.has("restart");  // until it is taken
  f.duration("restart", p.join, Nanos(0), std::chrono::hours(1));
  if (restarts) p.leave = p.join;
  f.duration("join", p.join, Nanos(0), std::chrono::hours(1));
  f.duration("leave", p.leave, Nanos(0), std::chrono::hours(1));
  f.duration("round", p.round, Millis(1), std::chrono::hours(1));
  if (const std::string share = read_word(f, "shareSteps"); !share.empty()) {
    p.shares_steps = share == "true";
    if (share != "true" && share != "false") f.complain("shareSteps", "must be true or false");
  }
  std::string count;
  if (!f.text("countBy", count)) return;
  p.by_goodput = count == "goodput";
  if (count != "goodput" && count != "samples")
    f.complain("countBy", "\"" + count + "\" is neither samples nor goodput");
}

// ---- models ------------------------------------------------------------------------------------

void JobReader::model(Fields& f, JobModel& m) {
  int samples = 1;
  f.need("samples", "the samples of an epoch, such as 50000");
  f.integer("samples", samples, 1, kMostSamples);
  m.samples = samples;
  f.integer("epochs", m.epochs, 1, kMostEpochs);
  f.need("batchSize", "the samples of a step, such as {least: 128, most: 4096}");
  read_section(part(f), "batchSize", [&](Fields& b) {
    b.need("least", "the least samples of a step, over all workers");
    b.integer("least", m.batch.least, 1, kMostBatch);
    m.batch.most = m.batch.least;
    b.integer("most", m.batch.most, 1, kMostBatch);
    b.integer("mostPerWorker", m.batch.most_local, 1, kMostBatch);
    if (m.batch.most < m.batch.least)
      b.complain("most",
                 std::to_string(m.batch.most) + " is below least " + std::to_string(m.batch.least));
  });
  f.need("step", "the seconds of a step, such as {alphaC: 0.02, betaC: 0.001}");
  read_section(part(f), "step", [&](Fields& s) { step(s, m.step); });
  noise(f, m);
  f.bytes("memory", m.memory);
}

void JobReader::step(Fields& f, StepModel& s) {
  f.number("alphaC", s.alpha_c, 0, kLongestStep);
  f.number("betaC", s.beta_c, 0, kLongestStep);
  f.number("alphaR", s.alpha_r, 0, kLongestStep);
  f.number("betaR", s.beta_r, 0, kLongestStep);
  s.alpha_n = s.alpha_r;
  s.beta_n = s.beta_r;
  f.number("alphaN", s.alpha_n, 0, kLongestStep);
  f.number("betaN", s.beta_n, 0, kLongestStep);
  f.number("gamma", s.gamma, 1, 10);
  if (s.alpha_c + s.beta_c < kShortestStep)
    f.complain("alphaC", "with betaC it is below 1e-6 seconds: no device computes a step in that");
}

void JobReader::noise(Fields& f, JobModel& m) {
  const YAML::Node node = f.take("noiseScale");
  if (!node.IsDefined()) return;
  const auto add = [&](const YAML::Node& item) {
    double value = 0;
    const bool good = item.IsScalar() && YAML::convert<double>::decode(item, value);
    if (good && value >= kLeastNoise && value <= kMostNoise) m.noise.push_back(value);
    return good && value >= kLeastNoise && value <= kMostNoise;
  };
  bool good = !node.IsSequence() ? add(node) : node.size() > 0 && node.size() <= kMostNoiseScales;
  if (node.IsSequence() && good)
    for (const YAML::Node& item : node) good = add(item) && good;
  if (!good)
    f.complain("noiseScale", "must be a number from 0.1 to 1e+07, or a list of 1 to 1000 of them");
}

const JobModel* JobReader::find_model(const std::string& name) const {
  const auto found = std::find_if(models_.begin(), models_.end(),
                                  [&](const JobModel& m) { return m.name == name; });
  return found == models_.end() ? nullptr : &*found;
}

std::vector<std::string> JobReader::model_names() const {
  std::vector<std::string> names;
  for (const JobModel& m : models_) names.push_back(m.name);
  return names;
}

// ---- one job -----------------------------------------------------------------------------------

void JobReader::job(Fields& f) {
  ScenarioJob job;
  TrainingSpec training;
  f.need("name", "the job's name");
  f.text("name", job.spec.name.name);
  f.duration("at", job.arrives, Nanos(0), kLatestJob);
  f.need("length", "the number of epochs");
  f.integer("length", training.epochs, 1, kMostEpochs);
  devices_of(f, training.min_workers, training.max_workers);
  f.integer("priority", job.spec.priority, -1000, 1000);
  policy(f, job.spec.policy);
  plan(f, training.plan, job.spec.policy_settings);
  if (f.has("model")) {
    const std::string name = read_word(f, "model");
    if (const JobModel* known = find_model(name))
      job.model = *known;
    else
      f.complain("model", not_found("model", name, model_names()));
  } else {
    model(f, job.model);
  }
  job.spec.device = "any";
  job.spec.kind = std::move(training);
  add(f, "name", std::move(job));
}

void JobReader::devices_of(Fields& f, int& least, int& most) const {
  f.integer("leastDevices", least, 1, std::max(devices(), 1));
  f.integer("mostDevices", most, 0, std::max(devices(), 1));
  if (most != 0 && most < least)
    f.complain("mostDevices",
               std::to_string(most) + " is below leastDevices " + std::to_string(least));
}

void JobReader::policy(Fields& f, std::string& out) const {
  if (!f.text("policy", out) || policy::find_bundle(out) != nullptr) return;
  std::vector<std::string> known;
  for (const policy::Bundle& b : policy::bundles()) known.emplace_back(b.name);
  f.complain("policy", not_found("policy", out, known));
}

void JobReader::plan(Fields& f, std::string& out,
                     std::map<std::string, std::string>& settings) const {
  if (f.text("plan", out) && policy::find_plan(out) == nullptr)
    f.complain("plan", not_found("plan", out, policy::plan_names()));
  f.texts("settings", settings);
  if (settings.empty()) return;
  if (const policy::Plan* plan = policy::find_plan(out); plan == nullptr)
    f.complain("settings", "are those of a plan, which `plan` must name");
  else if (const auto set = plan->settings.with(settings); !set.ok())
    f.complain("settings", set.error().message);
}

// Returns false after a problem that the jobs behind it would have as well.
bool JobReader::add(Fields& f, const std::string& key, ScenarioJob job) {
  const std::string& name = job.spec.name.name;
  const auto refuse = [&](const std::string& why) {
    f.complain(key, why);
    return false;
  };
  if (out_.jobs.size() >= kMostJobs)
    return refuse("there are more than " + std::to_string(kMostJobs) + " jobs");
  if (const auto good = control::check_name(name); !good.ok()) return refuse(good.error().message);
  if (!names_.insert(name).second) return refuse("\"" + name + "\" stands twice");
  Bytes largest = 0;
  for (const DevicePlan& d : out_.cluster.devices) largest = std::max(largest, d.device.memory);
  if (job.model.memory > largest)
    return refuse("job " + name + " needs " + format_bytes(job.model.memory) +
                  " a worker; a device has " + format_bytes(largest) + " at most");
  TrainingSpec& training = job.spec.training();
  training.batch = job.model.batch;
  job.spec.memory = job.model.memory;
  out_.jobs.push_back(std::move(job));
  return true;
}

bool has_jobs(const Fields& spec) {
  return spec.has("jobs") || spec.has("jobLists");
}

void read_jobs(const ScenarioPart& spec, const std::filesystem::path& folder, Scenario& out) {
  JobReader(spec, folder, out).read();
}

}  // namespace sluice::sim
