#include "control/model_copies.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <openssl/evp.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <vector>

#include "base/log.h"
#include "base/replace_file.h"
#include "base/system_error.h"
#include "wire/json.h"

namespace sluice::control {
namespace {

namespace fs = std::filesystem;

constexpr size_t kChunk = 1 << 20;
constexpr size_t kMostKnown = 10'000;
constexpr size_t kHashDigits = 64;

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) { EVP_DigestInit_ex(context_, EVP_sha256(), nullptr); }
  ~Sha256() { EVP_MD_CTX_free(context_); }
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(std::string_view bytes) { EVP_DigestUpdate(context_, bytes.data(), bytes.size()); }
  std::string hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    EVP_DigestFinal_ex(context_, digest, &size);
    std::string out;
    for (unsigned int i = 0; i < size; ++i) {
      out += "0123456789abcdef"[digest[i] >> 4];
      out += "0123456789abcdef"[digest[i] & 15];
    }
    return out;
  }

 private:
  EVP_MD_CTX* context_;
};

// What a model's copy has beside it: the same text for the same inputs and outputs.
std::string description_of(const ModelSpec& model) {
  const nlohmann::json all = wire::to_json(model);
  return nlohmann::json{
      {"platform", "pytorch_torchscript"}, {"inputs", all["inputs"]}, {"outputs", all["outputs"]}}
      .dump();
}

std::string content_of(const RegularFile& file, const std::string& description) {
  Sha256 hash;
  hash.add(description);
  hash.add(std::string_view("\0", 1));
  for (uint64_t at = 0; at < file.size(); at += kChunk) hash.add(file.read(at, kChunk));
  return hash.hex();
}

bool same_file(const struct stat& a, const struct stat& b) {
  const auto same = [](const timespec& x, const timespec& y) {
    return x.tv_sec == y.tv_sec && x.tv_nsec == y.tv_nsec;
  };
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         same(a.st_mtim, b.st_mtim) && same(a.st_ctim, b.st_ctim);
}

// Two writes within a tick of the kernel's clock have the same time: a file that was written just
// before it is read may be written again unseen. `now`: of a file that was made just then.
bool settled_before(const struct stat& now, const struct stat& file) {
  return now.st_ctim.tv_sec - file.st_ctim.tv_sec > 1;
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// The kernel's clone where the file system has one; else its copy; else ours, across some file
// systems.
bool copy_bytes(const RegularFile& from, int to) {
  if (::ioctl(to, FICLONE, from.fd()) == 0) return true;
  off_t at = 0;
  while (at < static_cast<off_t>(from.size())) {
    const ssize_t n = ::copy_file_range(from.fd(), &at, to, nullptr, from.size() - at, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == ENOSPC) return false;
    if (n <= 0) break;
  }
  for (; at < static_cast<off_t>(from.size()); at += kChunk)
    if (!write_all(to, from.read(static_cast<uint64_t>(at), kChunk))) return false;
  return true;
}

// Whether ModelCopies gives files such a name.
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
  return model.content.empty() ? model.path : folder + "/" + model.content + ".pt";
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
  SLUICE_ASSIGN(file, RegularFile::open(model.path));
  const std::string description = description_of(model);
  const auto content = known(model.path, file.about(), description);
  model.content = content ? *content : content_of(file, description);
  return {};
}

Result<ModelCopies::Hold> ModelCopies::keep(ModelSpec& model) {
  SLUICE_ASSIGN(file, RegularFile::open(model.path));
  const std::string description = description_of(model);
  if (const auto content = known(model.path, file.about(), description)) {
    Hold held = hold(*content);
    model.content = *content;
    if (fs::exists(start_path(folder_, model))) return held;
  }
  const std::lock_guard one_at_a_time(copying_);
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
  auto kept = put(file, model, description, aside);
  ::unlink(aside.c_str());
  if (!kept.ok()) return within("model.path: " + model.path + " cannot be copied", kept.error());
  return kept;
}

// Makes the copy in `aside`, unless there is one, and names it.
Result<ModelCopies::Hold> ModelCopies::put(const RegularFile& from, ModelSpec& model,
                                           const std::string& description,
                                           const std::string& aside) {
  const Fd to(::open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  struct stat begun {};
  if (!to.valid() || ::fstat(to.get(), &begun) != 0) return system_error(folder_);
  model.content = content_of(from, description);
  Hold held = hold(model.content);
  const std::string path = start_path(folder_, model);
  const bool there = fs::exists(path);
  if (!there && (!copy_bytes(from, to.get()) || ::fsync(to.get()) != 0)) {
    const Error why = system_error(folder_);
    return within("the copy takes " + std::to_string((from.size() >> 20) + 1) + " MiB", why);
  }
  SLUICE_ASSIGN(copy, RegularFile::open(there ? path : aside));
  SLUICE_ASSIGN(after, RegularFile::open(model.path));
  if (!same_file(after.about(), from.about()) ||
      (!there && content_of(copy, description) != model.content))
    return Error{ErrorKind::kConflict, "it changed meanwhile: apply again when it is written"};
  if (!there) {
    // The description first: a model that is there is whole.
    SLUICE_TRY(
        replace_file(fs::path(path).replace_extension(".json"), description, 0600, Flush::kYes));
    if (::rename(aside.c_str(), path.c_str()) != 0) return system_error(path);
  }
  if (settled_before(begun, from.about())) {
    const std::lock_guard lock(mutex_);
    if (known_.size() >= kMostKnown) known_.clear();
    known_[model.path] = {from.about(), description, model.content};
  }
  return held;
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
}

// Renames a file that nothing uses, so that its removal, which takes a large file's time, needs no
// lock. Returns the new path; empty: the file stays.
std::string ModelCopies::put_aside(const std::string& file) {
  const std::string path = folder_ + "/" + file;
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
