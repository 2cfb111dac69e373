#include "control/training.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/log.h"
#include "base/readable.h"
#include "base/replace_file.h"
#include "base/secret.h"
#include "control/model_copies.h"
#include "train/checkpoints.h"

namespace sluice::control {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPython = "/usr/bin/python3";
constexpr int kKeptCheckpoints = 3;
constexpr int kBatch = 64;              // the least of a step, where the function names none
constexpr int kBatchGrowth = 4;         // the most, as a multiple of it
constexpr double kLearningRate = 0.02;  // at the least batch, with momentum

// Workers that run outlive this process, and bear the key of their start.
std::string key_in(const std::string& file) {
  std::string key;
  std::ifstream(file) >> key;
  if (!key.empty()) return key;
  key = make_secret();
  if (const auto written = replace_file(file, key + "\n"); !written.ok())
    log::warn("{}", written.error().message);
  return key;
}

}  // namespace

std::optional<JobView> job_view(const FunctionSpec& spec,
                                const std::optional<train::JobStatus>& status, Time submitted) {
  if (spec.is_inference()) return std::nullopt;
  JobView view{.submitted = submitted};
  if (status) {
    view.phase = status->phase;
    view.trouble = status->trouble;
    view.samples = status->samples * status->epochs;
    const train::JobPosition at = train::position_of(*status);
    view.done = std::min(view.samples, at.epoch * status->samples + at.sample);
    view.noise = status->noise;
    view.step = status->step;
    view.batch = status->batch;
    view.learning_rate = status->learning_rate;
  }
  if (spec.training().paused && train::goes_on(view.phase)) view.phase = JobPhase::kPaused;
  return view;
}

LocalTraining::LocalTraining(LocalTrainingSettings settings,
                             std::unique_ptr<train::JobServer> server)
    : settings_(std::move(settings)), server_(std::move(server)) {}

std::string LocalTraining::artifacts_of(const FunctionName& f, int revision) const {
  return settings_.data + "/artifacts/" + revision_id(f, revision);
}

// The platform's copies of models are its own to read: the job gets one that its workers may.
std::string LocalTraining::module_for_workers(const ModelSpec& model,
                                              const std::string& folder) const {
  if (model.path.empty()) return "";
  std::string path = folder + "/module.pt";
  std::error_code fault;
  if (!fs::exists(path, fault)) {
    const std::string aside = path + ".new";
    fs::copy_file(start_path(settings_.data + "/models", model), aside,
                  fs::copy_options::overwrite_existing, fault);
    if (!fault) fs::permissions(aside, fs::perms(0644), fault);
    if (!fault) fs::rename(aside, path, fault);
    if (fault) log::warn("{}: {}", path, fault.message());
  }
  return path;
}

// A user's folder may be closed to the workers' user ids although its files are not. Links to the
// files cost nothing, and a file that changes is still noticed. Elsewhere than on one file system
// there are none, and the workers read the folder itself.
std::string LocalTraining::dataset_for_workers(const std::string& dataset,
                                               const std::string& folder) const {
  if (dataset.empty()) return "";
  std::string linked = folder + "/dataset";
  const std::string aside = linked + ".new";
  std::error_code fault;
  if (fs::exists(linked, fault)) return linked;
  fs::remove_all(aside, fault);
  fs::create_directory(aside, fault);
  for (const auto& entry : fs::directory_iterator(dataset, fault)) {
    const std::string name = entry.path().filename();
    if (!name.ends_with(".npy") && name != "index.json") continue;
    fs::create_hard_link(entry.path(), aside + "/" + name, fault);
    if (fault) break;
  }
  if (fault || fs::is_empty(aside, fault)) return dataset;
  fs::permissions(aside, fs::perms(0755), fault);
  fs::rename(aside, linked, fault);
  return fault ? dataset : linked;
}

void LocalTraining::keep(const Revision& r) {
  const auto known = jobs_.find(r.function);
  if (known != jobs_.end() && known->second.revision == r.number) return prune(r.function);
  end(r.function);
  const TrainingSpec& spec = r.spec.training();
  const std::string folder = artifacts_of(r.function, r.number);
  std::error_code fault;
  fs::create_directories(folder, fault);
  // Each worker has a user id of its own, and writes here what the next one reads. Only the folders
  // above cannot be listed.
  chmod((settings_.data + "/artifacts").c_str(), 0711);
  chmod(fs::path(folder).parent_path().c_str(), 0711);
  chmod(folder.c_str(), 01777);
  train::JobSettings job{.name = revision_id(r.function, r.number)};
  job.min_workers = spec.min_workers;
  job.script = !spec.command.empty();
  job.batch = spec.batch;
  if (job.batch.least == 0) job.batch.least = kBatch;
  if (job.batch.most == 0) job.batch.most = job.batch.least * kBatchGrowth;
  job.job = {.model = module_for_workers(spec.model, folder),
             .dataset = dataset_for_workers(spec.dataset, folder),
             .artifacts = folder,
             .epochs = spec.epochs,
             .batch = job.batch.least,
             .learning_rate = spec.learning_rate > 0 ? spec.learning_rate : kLearningRate,
             .least_part = job.batch.most_local == 1 ? 1 : 2};
  if (const auto all = train::checkpoints_in(folder); !all.empty()) {
    job.resume = train::Saved{all.back().at, all.back().path, all.back().bytes};
    const std::string trained = folder + "/model.pt";
    if (all.back().at.epoch >= spec.epochs && fs::exists(trained, fault)) job.trained = trained;
  }
  job.finished = !job.trained.empty() || fs::exists(folder + "/finished", fault);
  const std::string key = key_in(folder + ".key");
  jobs_[r.function] = {r.number, key, spec, ""};
  const std::string name = job.name;
  server_->add(name, key, std::move(job));
}

// Workers cannot: each checkpoint belongs to the user id of the one that wrote it.
void LocalTraining::prune(const FunctionName& f) {
  Kept& job = jobs_.at(f);
  const auto now = status(f);
  if (!now || !now->checkpoint || now->checkpoint->path == job.newest_checkpoint) return;
  job.newest_checkpoint = now->checkpoint->path;
  train::forget_checkpoints(artifacts_of(f, job.revision), kKeptCheckpoints);
}

void LocalTraining::end(const FunctionName& f) {
  const auto known = jobs_.find(f);
  if (known == jobs_.end()) return;
  server_->remove(revision_id(f, known->second.revision));
  jobs_.erase(known);
}

// Of all its revisions: a function of the same name that is applied next must not go on with them.
void LocalTraining::remove(const FunctionName& f) {
  end(f);
  const fs::path any = artifacts_of(f, 1);
  const std::string prefix = f.name + "@";
  std::error_code fault;
  std::vector<fs::path> all;
  for (const auto& entry : fs::directory_iterator(any.parent_path(), fault))
    if (entry.path().filename().string().starts_with(prefix)) all.push_back(entry.path());
  for (const fs::path& path : all) fs::remove_all(path, fault);
}

void LocalTraining::run(const FunctionName& f, const std::vector<InstanceId>& workers) {
  if (const auto known = jobs_.find(f); known != jobs_.end())
    server_->expect_back(revision_id(f, known->second.revision), workers);
}

bool LocalTraining::ended(const FunctionName& f, const InstanceId& worker,
                          const std::string& error) {
  const auto known = jobs_.find(f);
  return known == jobs_.end() ||
         server_->ended(revision_id(f, known->second.revision), worker, error);
}

void LocalTraining::retry(const FunctionName& f) {
  const auto now = status(f);
  if (now && (now->phase == JobPhase::kPaused || now->phase == JobPhase::kFailed)) end(f);
}

std::optional<train::JobStatus> LocalTraining::status(const FunctionName& f) const {
  const auto known = jobs_.find(f);
  if (known == jobs_.end()) return std::nullopt;
  return server_->status(revision_id(f, known->second.revision));
}

// A command that knows nothing of jobs runs under a program that obeys the job's controller for it.
std::vector<std::string> LocalTraining::command_of(const TrainingSpec& spec) const {
  if (spec.command.empty()) return {settings_.trainer};
  if (spec.elastic) return spec.command;
  std::vector<std::string> words = {kPython, "-m", "sluice_elastic.restart"};
  words.insert(words.end(), spec.command.begin(), spec.command.end());
  return words;
}

Result<ExecOfProgram> LocalTraining::worker(const FunctionName& f, const InstanceId& worker,
                                            int threads) {
  const auto known = jobs_.find(f);
  if (known == jobs_.end())
    return Error{ErrorKind::kUnavailable, to_string(f) + " has no controller yet"};
  const Kept& job = known->second;
  std::vector<std::string> needed = job.spec.command;
  needed.push_back(artifacts_of(f, job.revision));
  for (const std::string& path : needed)
    if (geteuid() == 0 && fs::exists(path) && !readable_by_all(path))
      return Error{ErrorKind::kInvalid, path +
                                            " cannot be read by workers, which run as users of "
                                            "their own; it must be where all may read it"};
  ExecOfProgram program;
  program.command = command_of(job.spec);
  program.environment = {
      {"JOB_CONTROLLER", "unix:" + settings_.data + "/run/jobs.sock"},
      {"JOB_NAME", revision_id(f, job.revision)},
      {"JOB_KEY", job.key},
      {"JOB_WORKER", worker},
      {"JOB_DATASET", dataset_for_workers(job.spec.dataset, artifacts_of(f, job.revision))},
      {"GLOG_minloglevel", "2"},
      {"PYTHONPATH", fs::path(settings_.trainer).parent_path() / "python"},
      {"OMP_NUM_THREADS", std::to_string(threads)}};
  program.port = 0;
  program.serves = false;
  server_->expect(revision_id(f, job.revision), worker);
  return program;
}

}  // namespace sluice::control
