#include "control/local/local_training.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/log.h"
#include "base/printable.h"
#include "base/replace_file.h"
#include "base/secret.h"
#include "control/local/job_inputs.h"
#include "train/checkpoints.h"

namespace sluice::control {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPython = "/usr/bin/python3";
constexpr int kBatch = 64;       // the least of a step, where the function names none
constexpr int kBatchGrowth = 4;  // the most, as a multiple of it
constexpr int kCopiesWait = 60;  // calls of keep(), about a second each, after a copy failed
constexpr Nanos kTakingPatience = Seconds(10);
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

// Workers have filled it: it may be large.
void remove_folder(const std::string& path) {
  std::error_code fault;
  fs::remove_all(path, fault);
  if (fault) log::warn("{}: {}", path, fault.message());
}

bool done(const auto& work) {
  return work.valid() && work.wait_for(Nanos(0)) == std::future_status::ready;
}

}  // namespace

LocalTraining::LocalTraining(LocalTrainingSettings settings,
                             std::unique_ptr<train::JobServer> server)
    : settings_(std::move(settings)), server_(std::move(server)) {
  for (const std::string& path : retired_before(settings_.data))
    disk_.post([path] { remove_folder(path); });
}

Result<void> LocalTraining::check(const TrainingSpec& spec) const {
  return check_job_inputs(spec);
}

void LocalTraining::keep(const Revision& r) {
  const auto known = jobs_.find(r.function);
  if (known == jobs_.end() || known->second.revision != r.number) {
    // Its workers are refused from here on.
    if (known != jobs_.end()) disk_.post([folder = known->second.folder] { folder.release(); });
    end(r.function);
    begin(r);
  }
  Kept& job = jobs_.at(r.function);
  job.spec.keep_checkpoints = r.spec.training().keep_checkpoints;
  step(job, job.name);
}

void LocalTraining::begin(const Revision& r) {
  const JobFolder folder(settings_.data, r.function, r.number);
  const TrainingSpec& spec = r.spec.training();
  Kept& job = jobs_.emplace(r.function, Kept{.revision = r.number, .spec = spec, .folder = folder})
                  .first->second;
  const bool again = retried_.erase(r.function) > 0;
  job.name = revision_id(r.function, r.number);
  const auto back = gone_back_.extract(job.name);
  const std::optional<int64_t> step = back ? std::optional(back.mapped()) : std::nullopt;
  // Behind the copies that are under way, of this job or a deleted one of its name.
  job.preparing = thread_of_copies().post([this, folder, spec, again, step, copied = copied(job)] {
    return prepare(folder, spec, again, step, copied);
  });
}

// On the thread of copies.
Result<PreparedJob> LocalTraining::prepare(const JobFolder& folder, const TrainingSpec& spec,
                                           bool again, std::optional<int64_t> back_to,
                                           const CopiedJob& copied) const {
  if (back_to) {
    SLUICE_TRY(train::go_back_to(folder.work(), *back_to));
    if (settings_.copies.on()) SLUICE_TRY(settings_.copies.forget_after(copied, *back_to));
  }
  SLUICE_ASSIGN(job, folder.prepare(spec, settings_.data + "/models", again, disk_.stopping()));
  if (job.finished || back_to || !settings_.copies.on()) return std::move(job);
  std::string trouble;
  SLUICE_TRY(settings_.copies.bring_back(copied, trouble, copier_.stopping()));
  if (!trouble.empty()) log::warn("{}: a copy is passed over: {}", copied.name, trouble);
  job.resume = folder.newest_checkpoint();
  return std::move(job);
}

// Says what the job trains and how; it begins with copies of the same alone.
CopiedJob LocalTraining::copied(const Kept& job) const {
  const TrainingSpec& spec = job.spec;
  std::string of = "model " + (spec.model.content.empty() ? spec.model.path : spec.model.content) +
                   "\ndataset " + spec.dataset + "\ncommand";
  for (const std::string& word : spec.command) of += " " + word;
  of += "\nlength " + std::to_string(spec.epochs) + "\nbatch " + std::to_string(spec.batch.least) +
        " " + std::to_string(spec.batch.most) + " " + std::to_string(spec.batch.most_local) +
        "\nrate " + std::to_string(spec.learning_rate);
  return {job.name, of + "\n", job.folder.work(), job.folder.path()};
}

// Takes over what the disk's thread has done, and gives it what is to be done next.
void LocalTraining::step(Kept& job, const std::string& name) {
  if (done(job.preparing)) {
    Result<PreparedJob> prepared = job.preparing.get();
    if (prepared.ok()) {
      job.prepared = std::move(*prepared);
      add(job, name);
      look(job);
    } else {
      job.trouble = printable(prepared.error().message);
    }
  }
  if (done(job.taking)) {
    const Result<void> taken = job.taking.get();
    job.taken = taken.ok();
    if (!taken.ok()) job.trouble = "what it trained cannot be kept: " + taken.error().message;
  }
  const auto now = server_->status(name);
  if (now) see_checkpoints(job, *now);
  if (!now || !job.trouble.empty()) return;
  if (now->phase != JobPhase::kFinished || job.taken || job.taking.valid()) return;
  job.taking = disk_.post(
      [this, folder = job.folder, has_model = !now->model.empty(), samples = now->samples] {
        return folder.take_results(has_model, samples, disk_.stopping());
      });
}

void LocalTraining::add(Kept& job, const std::string& name) {
  const TrainingSpec& spec = job.spec;
  train::JobSettings s{.name = name};
  s.min_workers = spec.min_workers;
  s.script = !spec.command.empty();
  s.batch = spec.batch;
  if (s.batch.least == 0) s.batch.least = kBatch;
  if (s.batch.most == 0) s.batch.most = s.batch.least * kBatchGrowth;
  s.job = {.model = job.prepared.inputs.module,
           .dataset = job.prepared.inputs.dataset,
           .artifacts = job.folder.work(),
           .epochs = spec.epochs,
           .batch = s.batch.least,
           .learning_rate = spec.learning_rate > 0 ? spec.learning_rate : kLearningRate,
           .least_part = s.batch.most_local == 1 ? 1 : 2};
  s.resume = job.prepared.resume;
  s.finished = job.taken = job.prepared.finished;
  s.samples = job.prepared.samples;
  s.trained = job.folder.model();
  if (!spec.model.path.empty()) {
    std::shared_ptr<train::StepHistory>& steps = steps_[{spec.model.path, spec.dataset}];
    if (!steps) steps = std::make_shared<train::StepHistory>(all_reduces_);
    s.steps = steps;
  }
  job.key = key_in(job.folder.path() + ".key");
  const std::string key = job.key;
  server_->add(name, key, std::move(s));
}

// Forgets old ones and copies new ones. One that comes while another is copied is copied next.
void LocalTraining::see_checkpoints(Kept& job, const train::JobStatus& now) {
  take_checkpoints(job);
  if (!now.checkpoint) return;
  const std::string& newest = now.checkpoint->path;
  if (job.newest_checkpoint != newest) look(job);
  job.newest_checkpoint = newest;
  if (!settings_.copies.on() || job.copying.valid() || job.copied_checkpoint == newest) return;
  if (job.copies_wait-- > 0) return;
  job.copied_checkpoint = newest;
  job.copying = copier_.post([this, copied = copied(job), kept = job.spec.keep_checkpoints] {
    return settings_.copies.keep(copied, kept, copier_.stopping());
  });
}

void LocalTraining::take_checkpoints(Kept& job) {
  if (done(job.looking)) job.checkpoints.all = job.looking.get();
  if (done(job.copying)) {
    const Result<void> copied = job.copying.get();
    job.checkpoints.trouble = copied.ok() ? "" : copied.error().message;
    if (!copied.ok()) {
      log::warn("{}: no copy of a checkpoint: {}", job.name, copied.error().message);
      job.copied_checkpoint.clear();
      job.copies_wait = kCopiesWait;
    }
    look(job);
  }
}

void LocalTraining::look(Kept& job) {
  job.looking =
      thread_of_copies().post([this, copied = copied(job), kept = job.spec.keep_checkpoints] {
        train::forget_checkpoints(copied.work, kept);
        const std::set<int64_t> copies = settings_.copies.steps(copied);
        std::vector<ListedCheckpoint> all;
        for (const bool aside : {false, true})
          for (const train::Checkpoint& c :
               aside ? train::set_aside_in(copied.work) : train::checkpoints_in(copied.work))
            all.push_back({c.at, c.bytes, c.saved, aside, !aside && copies.contains(c.at.step)});
        std::ranges::stable_sort(all, {}, [](const ListedCheckpoint& c) { return c.at.step; });
        return all;
      });
}

void LocalTraining::end(const FunctionName& f) {
  const auto known = jobs_.find(f);
  if (known == jobs_.end()) return;
  server_->remove(revision_id(f, known->second.revision));
  jobs_.erase(known);
}

// Of all its revisions: a function of the same name that is applied next must not go on with them.
std::vector<std::string> LocalTraining::remove(const FunctionName& f, bool with_models) {
  if (const auto known = jobs_.find(f); known != jobs_.end() && known->second.taking.valid())
    known->second.taking.wait_for(kTakingPatience);
  end(f);
  std::erase_if(gone_back_, [own = to_string(f) + "@"](const auto& back) {
    return back.first.starts_with(own);
  });
  if (settings_.copies.on()) copier_.post([this, f] { settings_.copies.forget(f); });
  Retired retired = retire_job_folders(settings_.data, f, with_models);
  for (const std::string& path : retired.removed) disk_.post([path] { remove_folder(path); });
  return std::move(retired.kept);
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
  if (!now || (now->phase != JobPhase::kPaused && now->phase != JobPhase::kFailed)) return;
  end(f);
  retried_.insert(f);
}

ListedCheckpoints LocalTraining::checkpoints(const FunctionName& f) {
  const auto known = jobs_.find(f);
  if (known == jobs_.end()) return {};
  take_checkpoints(known->second);
  return known->second.checkpoints;
}

Result<void> LocalTraining::go_back(const FunctionName& f, int64_t step) {
  const auto now = status(f);
  if (now) take_checkpoints(jobs_.at(f));
  if (!now || now->files_pending || jobs_.at(f).looking.valid())
    return Error{ErrorKind::kUnavailable,
                 "the files of '" + to_string(f) + "' are being prepared: try again"};
  std::string steps;
  bool is_there = false;
  for (const ListedCheckpoint& c : jobs_.at(f).checkpoints.all) {
    steps += (steps.empty() ? "" : ", ") + std::to_string(c.at.step);
    is_there |= c.at.step == step;
  }
  if (!is_there)
    return Error{ErrorKind::kNotFound,
                 "'" + to_string(f) + "' has no checkpoint of step " + std::to_string(step) +
                     (steps.empty() ? "; it has none" : "; it has those of " + steps)};
  const bool in_trouble = now->phase == JobPhase::kPaused || now->phase == JobPhase::kFailed;
  gone_back_[jobs_.at(f).name] = step;
  end(f);
  if (in_trouble) retried_.insert(f);
  return {};
}

std::optional<train::JobStatus> LocalTraining::status(const FunctionName& f) const {
  const auto known = jobs_.find(f);
  if (known == jobs_.end()) return std::nullopt;
  const Kept& job = known->second;
  train::JobStatus now = server_->status(revision_id(f, job.revision))
                             .value_or(train::JobStatus{.epochs = job.spec.epochs});
  if (!job.trouble.empty()) {
    now.phase = JobPhase::kPaused;
    now.trouble = job.trouble;
  }
  now.files_pending = job.preparing.valid() || (now.phase == JobPhase::kFinished && !job.taken);
  // What the worker named is a path of its own.
  if (now.phase == JobPhase::kFinished) now.model = job.taken ? job.folder.model() : "";
  return now;
}

// A command that knows nothing of jobs runs under a program that obeys the job's controller for it.
std::vector<std::string> LocalTraining::command_of(const Kept& job) const {
  if (job.prepared.inputs.command.empty()) return {settings_.trainer};
  if (job.spec.elastic) return job.prepared.inputs.command;
  std::vector<std::string> words = {kPython, "-m", "sluice_elastic.restart"};
  words.insert(words.end(), job.prepared.inputs.command.begin(), job.prepared.inputs.command.end());
  return words;
}

Result<ExecOfProgram> LocalTraining::worker(const FunctionName& f, const InstanceId& worker,
                                            int threads) {
  const auto known = jobs_.find(f);
  if (known == jobs_.end() || known->second.key.empty())
    return Error{ErrorKind::kUnavailable, to_string(f) + " has no controller yet"};
  const Kept& job = known->second;
  ExecOfProgram program;
  program.command = command_of(job);
  program.environment = {{"JOB_CONTROLLER", "unix:" + settings_.data + "/run/jobs.sock"},
                         {"JOB_NAME", revision_id(f, job.revision)},
                         {"JOB_KEY", job.key},
                         {"JOB_WORKER", worker},
                         {"JOB_DATASET", job.prepared.inputs.dataset},
                         {"GLOG_minloglevel", "2"},
                         {"PYTHONPATH", fs::path(settings_.trainer).parent_path() / "python"},
                         {"OMP_NUM_THREADS", std::to_string(threads)}};
  program.port = 0;
  program.home = job.folder.path();
  program.serves = false;
  server_->expect(revision_id(f, job.revision), worker);
  return program;
}

}  // namespace sluice::control
