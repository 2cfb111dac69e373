#include "control/local/job_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/copy_file.h"
#include "base/log.h"
#include "base/readable.h"
#include "base/replace_file.h"
#include "base/system_error.h"
#include "base/untrusted_folder.h"
#include "control/local/job_inputs.h"
#include "control/local/model_copies.h"
#include "train/checkpoints.h"

namespace sluice::control {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestDescription = 1 << 20;
constexpr size_t kMostListed = 10'000;
constexpr char kModel[] = "model.pt", kDescription[] = "model.json", kFunction[] = "function.yaml",
               kFinished[] = "finished";
constexpr const char* kInputs[] = {"module.pt", "dataset", "command"};
constexpr char kRetired[] = ".retired-";

Result<void> make_folder(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) return system_error(path);
  if (::chmod(path.c_str(), mode) != 0) return system_error(path);
  return {};
}

std::string folder_of(const std::string& data, const std::string& kind, const FunctionName& f) {
  return data + "/" + kind + "/" + f.space;
}

bool writable_by_others(const std::string& path) {
  struct stat about {};
  return ::lstat(path.c_str(), &about) == 0 && (about.st_mode & S_IWOTH) != 0;
}

}  // namespace

JobFolder::JobFolder(const std::string& data, const FunctionName& f, int revision)
    : function_(f), path_(data + "/artifacts/" + revision_id(f, revision)) {}

bool JobFolder::finished() const {
  std::error_code fault;
  return fs::exists(path_ + "/" + kFinished, fault) && !writable_by_others(path_);
}

std::string JobFolder::model() const {
  std::error_code fault;
  std::string path = path_ + "/" + kModel;
  return finished() && fs::exists(path, fault) ? path : "";
}

Result<PreparedJob> JobFolder::prepare(const TrainingSpec& spec, const std::string& models,
                                       bool again, const std::atomic<bool>& stopped) const {
  const std::string space = fs::path(path_).parent_path();
  for (const std::string& above : {fs::path(space).parent_path().string(), space})
    SLUICE_TRY(make_folder(above, 0711));
  std::error_code fault;
  if (!fs::exists(path_, fault) && fs::exists(converted() + "/work", fault))
    fs::rename(converted(), path_, fault);  // this process's predecessor died in between
  if (writable_by_others(path_)) SLUICE_TRY(convert(spec, stopped));
  SLUICE_TRY(make_folder(path_, 0750));
  SLUICE_TRY(make_folder(work(), 0700));  // the node gives it to a user (node/program_home.h)
  if (geteuid() == 0 && !enterable_by_all(space))
    return Error{ErrorKind::kInvalid,
                 path_ +
                     " is in a folder that is closed to workers, which run as users of their "
                     "own (61000 and up): start the platform with its data elsewhere (--data), "
                     "or open the folders above (chmod o+x)"};
  PreparedJob job{.finished = finished()};
  if (job.finished) std::ifstream(path_ + "/" + kFinished) >> job.samples;
  if (!job.finished) {
    if (again)
      for (const char* input : kInputs) fs::remove_all(path_ + "/" + input, fault);
    SLUICE_ASSIGN(module, bring_module(spec.model, models, stopped));
    SLUICE_ASSIGN(data, bring_dataset(spec, path_ + "/dataset", stopped));
    SLUICE_ASSIGN(command, bring_command(spec.command, path_ + "/command", stopped));
    job.inputs = {std::move(module), std::move(data), std::move(command)};
  }
  job.resume = newest_checkpoint();
  return job;
}

std::optional<train::Saved> JobFolder::newest_checkpoint() const {
  const auto all = train::checkpoints_in(work());
  if (all.empty()) return std::nullopt;
  return train::Saved{all.back().at, all.back().path, all.back().bytes};
}

// The platform's copies of models are its own to read: the job gets one that its workers may.
Result<std::string> JobFolder::bring_module(const ModelSpec& model, const std::string& models,
                                            const std::atomic<bool>& stopped) const {
  if (model.path.empty()) return std::string();
  const std::string path = path_ + "/module.pt";
  std::error_code fault;
  if (fs::exists(path, fault)) return path;
  SLUICE_ASSIGN(file, RegularFile::open(start_path(models, model)));
  SLUICE_TRY(copy_file(file, path, 0644, stopped));
  return path;
}

// An earlier version let every local user write to the folder. All of it becomes `work`, in which
// nothing is trusted; only checkpoints are kept, and the model if they say that it was trained.
Result<void> JobFolder::convert(const TrainingSpec& spec, const std::atomic<bool>& stopped) const {
  const std::string aside = converted();
  SLUICE_TRY(make_folder(aside, 0750));
  if (::rename(path_.c_str(), (aside + "/work").c_str()) != 0 ||
      ::rename(aside.c_str(), path_.c_str()) != 0)
    return system_error(path_);
  SLUICE_TRY(make_folder(work(), 0700));
  SLUICE_ASSIGN(left, UntrustedFolder::open(work()));
  std::error_code fault;
  for (const char* input : kInputs) fs::remove_all(work() + "/" + input, fault);
  for (const std::string& name : left.names("", kMostListed))
    if (const auto folder = left.folder(name); folder.ok())
      if (const auto given = folder->give(folder->owner(), geteuid()); !given.ok())
        log::warn("{}", given.error().message);
  const auto checkpoints = train::checkpoints_in(work());
  const bool trained =
      left.file(kModel).ok() && !checkpoints.empty() && checkpoints.back().at.epoch >= spec.epochs;
  if (trained || left.file(kFinished).ok()) return take_results(trained, 0, stopped);
  return {};
}

Result<void> JobFolder::take_results(bool has_model, int64_t samples,
                                     const std::atomic<bool>& stopped) const {
  SLUICE_ASSIGN(left, UntrustedFolder::open(work()));
  if (has_model) {
    SLUICE_ASSIGN(model, left.file(kModel));
    SLUICE_TRY(copy_file(model, path_ + "/" + kModel, 0644, stopped));
    // What `sluice apply` needs to serve it. A module whose forward takes other arguments than the
    // data set's first arrays has to be described by its user.
    if (const auto description = left.file(kDescription); description.ok()) {
      SLUICE_ASSIGN(text, description->text(kLongestDescription));
      SLUICE_TRY(replace_file(path_ + "/" + kDescription, text, 0644));
      SLUICE_TRY(replace_file(path_ + "/" + kFunction,
                              "apiVersion: sluice.dev/v1alpha1\nkind: InferenceFunction\n"
                              "metadata:\n  name: " +
                                  function_.name +
                                  "-trained\n"
                                  "  namespace: " +
                                  function_.space +
                                  "\n"
                                  "spec:\n  model: {path: ./" +
                                  kModel + "}\n",
                              0644));
    }
  }
  SLUICE_TRY(replace_file(path_ + "/" + kFinished, std::to_string(samples), 0644, Flush::kYes));
  release();
  std::error_code fault;
  for (const char* input : kInputs) fs::remove_all(path_ + "/" + input, fault);
  return {};
}

void JobFolder::release() const {
  const auto left = UntrustedFolder::open(work());
  if (geteuid() != 0 || !left.ok()) return;
  if (const auto given = left->give(left->owner(), 0); !given.ok())
    log::warn("{}", given.error().message);
}

// ---- after the job -----------------------------------------------------------------------------

namespace {

// Moves what a finished job has left to a folder of its own. Returns what is to be named to its
// user; empty: there is nothing.
std::string keep_results(const JobFolder& job, const std::string& data, const FunctionName& f) {
  std::error_code fault;
  const bool has_model = !job.model().empty();
  if (!has_model && fs::is_empty(job.work(), fault)) return "";
  const std::string space = folder_of(data, "trained", f);
  if (fs::create_directories(space, fault); fault) return "";
  fs::permissions(data + "/trained", fs::perms(0700), fault);
  std::string to;
  for (int number = 1;; ++number) {
    to = space + "/" + f.name + "-" + std::to_string(number);
    if (::mkdir(to.c_str(), 0700) == 0) break;
    if (errno != EEXIST) return "";
  }
  if (!has_model) {
    fs::rename(job.work(), to + "/work", fault);
    return fault ? "" : to + "/work";
  }
  for (const char* file : {kDescription, kFunction, kModel})
    if (fs::exists(job.path() + "/" + file, fault))
      fs::rename(job.path() + "/" + file, to + "/" + file, fault);
  return to + "/" + kModel;
}

std::string retired_name(const std::string& folder) {
  for (int number = 0;; ++number)
    if (std::string name = folder + "/" + kRetired + std::to_string(number);
        !fs::exists(fs::symlink_status(name)))
      return name;
}

}  // namespace

Retired retire_job_folders(const std::string& data, const FunctionName& f, bool with_models) {
  const std::string space = folder_of(data, "artifacts", f), prefix = f.name + "@";
  Retired retired;
  const auto folder = UntrustedFolder::open(space);
  if (!folder.ok()) return retired;
  for (const std::string& name : folder->names(prefix, kMostListed)) {
    const int revision = std::atoi(name.c_str() + prefix.size());
    const JobFolder job(data, f, revision);
    if (const std::string& path = job.path(); path.ends_with("/" + name) && job.finished())
      if (!with_models)
        if (std::string kept = keep_results(job, data, f); !kept.empty())
          retired.kept.push_back(std::move(kept));
    const std::string aside = retired_name(space);
    if (::rename((space + "/" + name).c_str(), aside.c_str()) == 0)
      retired.removed.push_back(aside);
    else
      log::warn("{}/{}: {}", space, name, strerrordesc_np(errno));
  }
  return retired;
}

std::vector<std::string> retired_before(const std::string& data) {
  std::vector<std::string> all;
  const auto spaces = UntrustedFolder::open(data + "/artifacts");
  if (!spaces.ok()) return all;
  for (const std::string& space : spaces->names("", kMostListed))
    if (const auto folder = spaces->folder(space); folder.ok())
      for (const std::string& name : folder->names(kRetired, kMostListed))
        all.push_back(folder->path() + "/" + name);
  return all;
}

}  // namespace sluice::control
