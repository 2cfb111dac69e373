#include "control/local/model_copies.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <functional>
#include <vector>

#include "base/log.h"
#include "base/replace_file.h"
#include "base/system_error.h"
#include "base/write_all.h"
#include "control/local/model_check.h"
#include "control/local/sha256.h"
#include "control/spec/model_url.h"
#include "model/server_kind.h"
#include "wire/json/json.h"

namespace sluice::control {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPiece = 1 << 20;
constexpr size_t kMostKnown = 10'000;
constexpr size_t kHashDigits = 64;

// Returns the file beside a model's copy: the same text for the same inputs and outputs.
std::string description_of(const ModelSpec& model) {
  const nlohmann::json all = wire::to_json(model);
  return nlohmann::json{
      {"platform", kind_of(model).platform}, {"inputs", all["inputs"]}, {"outputs", all["outputs"]}}
      .dump();
}

// Passes all of a file's bytes to `take`, in pieces.
Result<void> for_each_piece(const RegularFile& file, const std::string& path,
                            const std::atomic<bool>& stopped,
                            const std::function<Result<void>(std::string_view)>& take) {
  for (uint64_t at = 0; at < file.size(); at += kPiece) {
    if (stopped) return Error{ErrorKind::kUnavailable, "the platform is shutting down"};
    const std::string piece = file.read(at, kPiece);
    if (piece.size() < std::min<uint64_t>(kPiece, file.size() - at))
      return Error{ErrorKind::kInternal, path + ": only " + std::to_string(at + piece.size()) +
                                             " of " + std::to_string(file.size()) +
                                             " bytes can be read"};
    SLUICE_TRY(take(piece));
  }
  return {};
}

Result<std::string> content_of(const RegularFile& file, const std::string& path,
                               const std::string& description, const std::atomic<bool>& stopped) {
  Sha256 hash(description);
  SLUICE_TRY(for_each_piece(file, path, stopped, [&](std::string_view piece) -> Result<void> {
    hash.add(piece);
    return {};
  }));
  return hash.hex();
}

bool same_file(const struct stat& a, const struct stat& b) {
  const auto same = [](const timespec& x, const timespec& y) {
    return x.tv_sec == y.tv_sec && x.tv_nsec == y.tv_nsec;
  };
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         same(a.st_mtim, b.st_mtim) && same(a.st_ctim, b.st_ctim);
}

bool changed_since(const RegularFile& opened, const std::string& path) {
  const auto now = RegularFile::open(path);
  return !now.ok() || !same_file(now->about(), opened.about());
}

// Two writes within a tick of the kernel's clock have the same time, so a file written just before
// it is read may be rewritten unnoticed.
bool settled_before(time_t now, const struct stat& file) {
  return now - file.st_ctim.tv_sec > 1;
}

// Makes `aside` a second name of the file. Returns whether it is one; if not, it is as before.
bool replace_by_link(const std::string& path, const std::string& aside) {
  const std::string second = fs::path(aside).replace_extension(".old");
  if (::link(path.c_str(), second.c_str()) != 0) return false;
  if (::rename(second.c_str(), aside.c_str()) == 0) return true;
  ::unlink(second.c_str());
  return false;
}

bool flush_folder(const std::string& folder) {
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return fd.valid() && ::fsync(fd.get()) == 0;
}

// Otherwise no copy can have the content of a file of that size.
bool has_copy_of_size(const std::string& folder, uint64_t size) {
  std::error_code fault;
  for (fs::directory_iterator at(folder, fault), end; !fault && at != end; at.increment(fault))
    if (std::error_code gone; at->path().extension() == ".pt" && at->file_size(gone) == size)
      return true;
  return false;
}

// Returns whether ModelCopies gives files such a name.
bool is_name_of_ours(std::string_view file) {
  const size_t dot = std::min(file.find('.'), file.size());
  const std::string_view stem = file.substr(0, dot), ending = file.substr(dot);
  if (stem.empty()) return false;
  if (ending == ".new" || ending == ".old")
    return stem.find_first_not_of("0123456789") == stem.npos;
  return (ending == ".pt" || ending == ".json" || ending == ".json.new") &&
         stem.size() == kHashDigits && stem.find_first_not_of("0123456789abcdef") == stem.npos;
}

}  // namespace

std::string start_path(const std::string& folder, const ModelSpec& model) {
  const bool copied = !model.content.empty() && model.format != kProgram;
  return copied ? folder + "/" + model.content + ".pt" : model.path;
}

ModelSpec ModelCopies::for_start(const ModelSpec& model) const {
  ModelSpec copy = model;
  copy.path = start_path(folder_, model);
  if (!model.program.files.empty() || !model.program.volumes.empty())
    copy.program.folder = programs_.path_of(model.content);
  return copy;
}

std::string ModelCopies::for_user(std::string error, const ModelSpec& model) const {
  if (model.path.empty()) return error;  // a command without a model
  if (model.format == kProgram) return error;
  const std::string copy = start_path(folder_, model);
  std::error_code unknown;
  if (!model.content.empty() && error.find(copy) != error.npos && !fs::exists(copy, unknown) &&
      !unknown)
    return "the copy of " + model.path + " is gone: apply the function's file again";
  for (size_t at = 0; (at = error.find(copy, at)) != error.npos; at += model.path.size())
    error.replace(at, copy.size(), model.path);
  return error;
}

Result<void> ModelCopies::check(ModelSpec& model) const {
  if (is_url(model.path)) return check_fetched(model);
  SLUICE_TRY(check_model(model));
  return check_secrets(model.program, secrets_);
}

// Its user knows the URL, and not the file here.
Result<void> ModelCopies::check_fetched(ModelSpec& model) const {
  ModelSpec local = model;
  SLUICE_ASSIGN(path, fetch_.file(model));
  local.path = path;
  if (local.inputs.empty()) {
    SLUICE_ASSIGN(text, fetch_.description(model));
    SLUICE_TRY(describe_model(local, text, sidecar_url(model.path)));
  }
  if (const auto checked = check_model(local); !checked.ok()) {
    Error why = checked.error();
    if (const size_t at = why.message.find(path); at != why.message.npos)
      why.message.replace(at, path.size(), model.path);
    return why;
  }
  model.inputs = local.inputs;
  model.outputs = local.outputs;
  return {};
}

// Returns the path of the model's file here.
Result<std::string> ModelCopies::file_of(const ModelSpec& model) const {
  if (is_url(model.path)) return fetch_.file(model);
  return model.path;
}

std::optional<std::string> ModelCopies::known(const std::string& path, const struct stat& file,
                                              const std::string& description) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(path);
  if (found == known_.end() || !same_file(found->second.file, file) ||
      found->second.description != description)
    return std::nullopt;
  return found->second.content;
}

void ModelCopies::note(const std::string& path, time_t begun, Known file) const {
  if (!settled_before(begun, file.file)) return;
  const std::lock_guard lock(mutex_);
  if (known_.size() >= kMostKnown) known_.clear();
  known_[path] = std::move(file);
}

ModelCopies::Hold ModelCopies::hold(const std::string& name) {
  const std::lock_guard lock(mutex_);
  held_.insert(name);
  return {this, [name](ModelCopies* copies) {
            const std::lock_guard lock(copies->mutex_);
            copies->held_.erase(copies->held_.find(name));
          }};
}

std::string ModelCopies::next_name(const char* suffix) {
  return std::to_string(next_++) + suffix;
}

Result<void> ModelCopies::identify(ModelSpec& model) const {
  if (model.format == kProgram) {
    SLUICE_ASSIGN(files, working_files(model.program));
    SLUICE_ASSIGN(content, content_of(model.program, files, stopped_));
    model.content = content;
    return {};
  }
  SLUICE_ASSIGN(path, file_of(model));
  SLUICE_ASSIGN(file, RegularFile::open(path));
  const std::string description = description_of(model);
  const auto content = known(path, file.about(), description);
  if (content) {
    model.content = *content;
    return {};
  }
  const time_t begun = std::time(nullptr);
  SLUICE_ASSIGN(read, content_of(file, path, description, stopped_));
  model.content = read;
  note(path, begun, {file.about(), description, read});
  return {};
}

// Holds a content and names it in `model`. Returns nullptr if it has no copy.
ModelCopies::Hold ModelCopies::hold_copy(ModelSpec& model, const std::string& content) {
  Hold held = hold(content);
  model.content = content;
  return fs::exists(start_path(folder_, model)) ? held : nullptr;
}

Result<ModelCopies::Hold> ModelCopies::keep(ModelSpec& model) {
  if (model.format == kProgram) return keep_program(model);
  SLUICE_ASSIGN(path, file_of(model));
  SLUICE_ASSIGN(file, RegularFile::open(path));
  const std::string description = description_of(model);
  if (const auto content = known(path, file.about(), description))
    if (Hold held = hold_copy(model, *content)) return held;
  std::error_code fault;
  if (fs::create_directory(folder_, fault)) fs::permissions(folder_, fs::perms::owner_all, fault);
  if (fault) return system_error(folder_, fault.value());
  std::string name;
  {
    const std::lock_guard lock(mutex_);
    name = next_name(".new");
  }
  const Hold writing = hold(name);
  const std::string aside = folder_ + "/" + name;
  auto kept = put(file, path, model, description, aside);
  ::unlink(aside.c_str());
  if (kept.ok() || kept.error().kind == ErrorKind::kConflict) return kept;
  return within("model.path: " + model.path + " cannot be copied", kept.error());
}

// The program stays where it is; its working folder is copied.
Result<ModelCopies::Hold> ModelCopies::keep_program(ModelSpec& model) {
  SLUICE_ASSIGN(files, working_files(model.program));
  SLUICE_ASSIGN(content, content_of(model.program, files, stopped_));
  model.content = content;
  Hold held = hold(content);
  SLUICE_TRY(programs_.keep(model.program, files, content, stopped_));
  return held;
}

// Holds the copy of the file's content. Makes it in `aside` if there is none.
Result<ModelCopies::Hold> ModelCopies::put(const RegularFile& from, const std::string& path,
                                           ModelSpec& model, const std::string& description,
                                           const std::string& aside) {
  const Fd to(::open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  struct stat begun {};
  if (!to.valid() || ::fstat(to.get(), &begun) != 0) return system_error(folder_);
  Hold held;
  // After a restart no file is known, but most have copies: those are not written again.
  if (has_copy_of_size(folder_, from.size())) {
    SLUICE_ASSIGN(content, content_of(from, path, description, stopped_));
    held = hold_copy(model, content);
  }
  if (!held) {
    const bool is_ours = is_url(model.path);
    const auto content = copy(from, path, model, description, to, aside);
    if ((!is_ours && changed_since(from, path)) ||
        (content.ok() && check_ != nullptr && !check_(model, aside).ok()))
      return Error{ErrorKind::kConflict,
                   "model.path: " + model.path +
                       " changed while it was copied. Apply again once it is completely written."};
    if (!content.ok()) return content.error();
    held = hold(*content);
    model.content = *content;
    SLUICE_TRY(give_name(aside, start_path(folder_, model), description));
  }
  note(path, begun.st_ctim.tv_sec, {from.about(), description, model.content});
  return held;
}

// Fills `to`, the file `aside`, and returns the content that it wrote. Each byte is read once: from
// the clone if the file system clones, else from the user's file. A file that was fetched is never
// changed, so `aside` is a link to it if the file system links.
Result<std::string> ModelCopies::copy(const RegularFile& from, const std::string& path,
                                      const ModelSpec& model, const std::string& description,
                                      const Fd& to, const std::string& aside) const {
  const auto failed = [&] {
    const Error why = system_error(folder_);
    return within("the copy takes " + std::to_string((from.size() >> 20) + 1) + " MiB", why);
  };
  std::string content;
  if (is_url(model.path) && replace_by_link(path, aside))
    return content_of(from, path, description, stopped_);
  if (::ioctl(to.get(), FICLONE, from.fd()) == 0) {
    SLUICE_ASSIGN(clone, RegularFile::open(aside));
    SLUICE_ASSIGN(cloned, content_of(clone, path, description, stopped_));
    content = cloned;
  } else {
    Sha256 hash(description);
    SLUICE_TRY(for_each_piece(from, path, stopped_, [&](std::string_view piece) -> Result<void> {
      hash.add(piece);
      if (!write_all(to.get(), piece)) return failed();
      return {};
    }));
    content = hash.hex();
  }
  if (::fsync(to.get()) != 0) return failed();
  return content;
}

// Renames the finished copy `aside` to `path`, unless another keep() has done so with its own.
Result<void> ModelCopies::give_name(const std::string& aside, const std::string& path,
                                    const std::string& description) {
  const std::lock_guard one_at_a_time(naming_);
  if (fs::exists(path)) return {};
  // The description first, so that a model with its final name is complete.
  SLUICE_TRY(
      replace_file(fs::path(path).replace_extension(".json"), description, 0600, Flush::kYes));
  if (::rename(aside.c_str(), path.c_str()) != 0 || !flush_folder(folder_))
    return system_error(path);
  return {};
}

void ModelCopies::set_used(std::set<std::string> contents) {
  const std::lock_guard lock(mutex_);
  used_ = std::move(contents);
  used_known_ = true;
}

// The folder is listed before anything in it is renamed: a new name would be listed, too.
void ModelCopies::sweep() {
  std::vector<std::string> files;
  std::error_code fault;
  for (fs::directory_iterator at(folder_, fault), end; !fault && at != end; at.increment(fault))
    if (std::error_code ignored; at->symlink_status(ignored).type() == fs::file_type::regular &&
                                 is_name_of_ours(at->path().filename().string()))
      files.push_back(at->path().filename());
  for (const std::string& file : files)
    if (const std::string old = put_aside(file); !old.empty()) ::unlink(old.c_str());
  fetch_.sweep();
  programs_.sweep([&](const std::string& content, const std::string& to) {
    const std::lock_guard lock(mutex_);
    if (!used_known_ || used_.contains(content) || held_.contains(content)) return false;
    return ::rename(programs_.path_of(content).c_str(), to.c_str()) == 0;
  });
}

// Renames a file that nothing uses, so that its removal, which takes a large file's time, needs no
// lock. Returns the new path; empty: the file stays.
std::string ModelCopies::put_aside(const std::string& file) {
  std::string path = folder_ + "/" + file;
  const std::string content = file.substr(0, file.find('.'));
  const std::lock_guard lock(mutex_);
  if (!used_known_ || used_.contains(content) || held_.contains(content) || held_.contains(file))
    return "";
  if (file.ends_with(".old")) return path;
  std::string old = folder_ + "/" + next_name(".old");
  if (::rename(path.c_str(), old.c_str()) != 0) return "";
  log::info("{}: no revision uses it any more", path);
  return old;
}

}  // namespace sluice::control
