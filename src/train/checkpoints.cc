#include "train/checkpoints.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <limits>
#include <utility>

#include "base/copy_file.h"
#include "base/fd.h"
#include "base/regular_file.h"
#include "base/replace_file.h"
#include "base/system_error.h"
#include "base/untrusted_folder.h"
#include "wire/json/json.h"

namespace sluice::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kVersion = 1;
constexpr std::string_view kPrefix = "checkpoint-", kAside = "set-aside-";
constexpr size_t kLongestManifest = 1 << 20;             // it names each parameter
constexpr size_t kMostEntries = 10'000, kMostRead = 32;  // of a folder
constexpr size_t kAtOnce = size_t{1} << 30;              // zlib counts in 32 bits

uint32_t checksum(const std::vector<StatePiece>& pieces) {
  uLong sum = crc32(0, nullptr, 0);
  for (const StatePiece& p : pieces)
    for (size_t at = 0; at < p.bytes; at += kAtOnce)
      sum = crc32(sum, reinterpret_cast<const Bytef*>(p.data + at),
                  static_cast<uInt>(std::min(kAtOnce, p.bytes - at)));
  return static_cast<uint32_t>(sum);
}

Result<void> write_all(int fd, const StatePiece& p) {
  for (size_t at = 0; at < p.bytes;) {
    const ssize_t n = write(fd, p.data + at, p.bytes - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return system_error("write");
    at += static_cast<size_t>(n);
  }
  return {};
}

Result<void> write_state(const std::string& path, const std::vector<StatePiece>& pieces) {
  const Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return within(path, system_error("open"));
  for (const StatePiece& p : pieces)
    if (const auto written = write_all(fd.get(), p); !written.ok())
      return within(path, written.error());
  if (fsync(fd.get()) != 0) return within(path, system_error("fsync"));
  return {};
}

int64_t total(const std::vector<StatePiece>& pieces) {
  int64_t sum = 0;
  for (const StatePiece& p : pieces) sum += static_cast<int64_t>(p.bytes);
  return sum;
}

// The controller reads it as root, and a worker has written it.
Result<Checkpoint> manifest_of(const std::string& path, uint32_t* sum) {
  SLUICE_ASSIGN(folder, UntrustedFolder::open(path));
  SLUICE_ASSIGN(file, folder.file("manifest"));
  SLUICE_ASSIGN(text, file.text(kLongestManifest));
  const timespec& written = file.about().st_mtim;
  const auto parsed = wire::parse_json(text);
  if (!parsed.ok()) return within(path + "/manifest", parsed.error());
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  wire::Fields f(*parsed, path + "/manifest");
  f.integer("version", 0, 1, kVersion);
  Checkpoint c{path, f.text("model")};
  c.at = {f.integer("step", 0, 0, kMost), f.integer("epoch", 0, 0, kMost),
          f.integer("sample", 0, 0, kMost)};
  c.bytes = f.integer("bytes", 0, 0, kMost);
  c.saved = written.tv_sec * 1000 + written.tv_nsec / 1'000'000;
  const auto crc = f.integer("checksum", 0, 0, std::numeric_limits<uint32_t>::max());
  if (sum != nullptr) *sum = static_cast<uint32_t>(crc);
  return f.finish(std::move(c));
}

std::string as_text(const Checkpoint& c, uint32_t sum) {
  const json manifest = {{"version", kVersion}, {"model", c.model},      {"step", c.at.step},
                         {"epoch", c.at.epoch}, {"sample", c.at.sample}, {"bytes", c.bytes},
                         {"checksum", sum}};
  return manifest.dump(2) + "\n";
}

std::vector<Checkpoint> all_in(const std::string& folder, std::string_view prefix) {
  std::vector<Checkpoint> all;
  const auto there = UntrustedFolder::open(folder);
  if (!there.ok()) return all;
  std::vector<std::string> names = there->names(prefix, kMostEntries);
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() > b.size() : a > b;  // as numbers, the newest first
  });
  if (names.size() > kMostRead) names.resize(kMostRead);
  for (const std::string& name : names)
    if (auto c = manifest_of(folder + "/" + name, nullptr);
        c.ok() && name == std::string(prefix) + std::to_string(c->at.step))
      all.push_back(std::move(*c));
  std::sort(all.begin(), all.end(),
            [](const Checkpoint& a, const Checkpoint& b) { return a.at.step < b.at.step; });
  return all;
}

// Gives the checkpoint of a step a name of another kind. One that has it already makes room.
Result<void> rename_in(const UntrustedFolder& folder, int64_t step, std::string_view from,
                       std::string_view to) {
  const std::string old_name = std::string(from) + std::to_string(step),
                    new_name = std::string(to) + std::to_string(step);
  std::error_code fault;
  fs::remove_all(folder.path() + "/" + new_name, fault);
  if (renameat(folder.fd(), old_name.c_str(), folder.fd(), new_name.c_str()) != 0)
    return within(folder.path() + "/" + old_name, system_error("rename"));
  return {};
}

Result<void> check_state(const RegularFile& state, uint32_t sum, const std::string& shown,
                         const std::atomic<bool>& stopped) {
  constexpr size_t kPiece = 1 << 20;
  uLong found = crc32(0, nullptr, 0);
  for (uint64_t at = 0; at < state.size(); at += kPiece) {
    if (stopped) return Error{ErrorKind::kUnavailable, shown + ": stopped"};
    const std::string piece = state.read(at, kPiece);
    found =
        crc32(found, reinterpret_cast<const Bytef*>(piece.data()), static_cast<uInt>(piece.size()));
  }
  if (found != sum)
    return Error{ErrorKind::kInvalid, shown + "/state: is damaged: its checksum differs"};
  return {};
}

// Gives a finished checkpoint its name. What lies there under it already is none.
Result<void> give_name(const std::string& aside, const std::string& path) {
  if (rename(aside.c_str(), path.c_str()) == 0) return {};
  std::error_code fault;
  if (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR) fs::remove_all(path, fault);
  if (rename(aside.c_str(), path.c_str()) != 0) return within(path, system_error("rename"));
  return {};
}

// Returns whether the pieces hold the state that the manifest describes.
Result<void> read_state(const Checkpoint& c, uint32_t sum, const std::vector<StatePiece>& pieces) {
  std::ifstream in(c.path + "/state", std::ios::binary);
  for (const StatePiece& p : pieces)
    if (!in.read(p.data, static_cast<std::streamsize>(p.bytes)))
      return Error{ErrorKind::kInvalid, c.path + "/state: ends early"};
  if (checksum(pieces) != sum)
    return Error{ErrorKind::kInvalid, c.path + "/state: is damaged: its checksum differs"};
  return {};
}

// Whether a checkpoint can be read does not depend on `model`; whether it fits does.
struct Read {
  Result<Checkpoint> outcome;
  bool whole = false;
};

Read read(const std::string& path, const std::string& model,
          const std::vector<StatePiece>& pieces) {
  uint32_t sum = 0;
  Result<Checkpoint> c = manifest_of(path, &sum);
  if (!c.ok()) return {c.error()};
  if (c->model != model)
    return {Error{ErrorKind::kInvalid, path + ": is a checkpoint of another model: it holds " +
                                           c->model.substr(0, 200) + ", this one " +
                                           model.substr(0, 200)},
            true};
  if (c->bytes != total(pieces))
    return {Error{ErrorKind::kInvalid, path + ": holds " + std::to_string(c->bytes) +
                                           " bytes of state; this model has " +
                                           std::to_string(total(pieces))},
            true};
  if (const auto state = read_state(*c, sum, pieces); !state.ok()) return {state.error()};
  return {std::move(c), true};
}

}  // namespace

Result<Checkpoint> save_checkpoint(const std::string& folder, const std::string& model,
                                   const JobPosition& at, const std::vector<StatePiece>& pieces) {
  Checkpoint c{folder + "/" + std::string(kPrefix) + std::to_string(at.step), model, at,
               total(pieces)};
  const std::string aside = folder + "/.writing-" + std::to_string(getpid());
  std::error_code fault;
  if (const auto there = manifest_of(c.path, nullptr); there.ok()) return *there;
  fs::remove_all(aside, fault);
  if (!fs::create_directories(aside, fault)) return system_error(aside, fault.value());
  const std::string manifest = as_text(c, checksum(pieces));
  const auto all = [&]() -> Result<void> {
    SLUICE_TRY(write_state(aside + "/state", pieces));
    SLUICE_TRY(replace_file(aside + "/manifest", manifest, 0644, Flush::kYes));
    SLUICE_TRY(give_name(aside, c.path));
    const Fd parent(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (parent.valid()) fsync(parent.get());
    return {};
  }();
  if (!all.ok()) {
    fs::remove_all(aside, fault);
    return all.error();
  }
  return c;
}

Result<Checkpoint> load_checkpoint(const std::string& path, const std::string& model,
                                   const std::vector<StatePiece>& pieces) {
  return read(path, model, pieces).outcome;
}

Result<LoadedCheckpoint> load_newest_checkpoint(const std::string& path, const std::string& model,
                                                const std::vector<StatePiece>& pieces) {
  Read found = read(path, model, pieces);
  if (found.whole) {
    SLUICE_ASSIGN(c, std::move(found.outcome));
    return LoadedCheckpoint{std::move(c), ""};
  }
  std::vector<std::string> damaged = {path};
  const std::string why = found.outcome.error().message;
  std::vector<Checkpoint> others = checkpoints_in(fs::path(path).parent_path());
  std::erase_if(others, [&](const Checkpoint& c) { return c.path == path; });
  for (; !others.empty(); others.pop_back()) {
    Read older = read(others.back().path, model, pieces);
    if (!older.whole) {
      damaged.push_back(others.back().path);
      continue;
    }
    SLUICE_ASSIGN(c, std::move(older.outcome));
    std::error_code ignored;
    for (const std::string& d : damaged) fs::remove_all(d, ignored);
    return LoadedCheckpoint{c, why + "; the job went on from step " + std::to_string(c.at.step)};
  }
  return Error{ErrorKind::kInvalid, why + "; there is no older whole checkpoint"};
}

std::vector<Checkpoint> checkpoints_in(const std::string& folder) {
  return all_in(folder, kPrefix);
}

std::vector<Checkpoint> set_aside_in(const std::string& folder) {
  return all_in(folder, kAside);
}

void forget_checkpoints(const std::string& folder, int kept) {
  std::error_code ignored;
  for (const std::string_view prefix : {kPrefix, kAside}) {
    const std::vector<Checkpoint> all = all_in(folder, prefix);
    for (size_t i = 0; i + static_cast<size_t>(kept) < all.size(); ++i)
      fs::remove_all(all[i].path, ignored);
  }
}

Result<void> go_back_to(const std::string& folder, int64_t step) {
  const std::vector<Checkpoint> used = all_in(folder, kPrefix), aside = all_in(folder, kAside);
  const auto is_it = [&](const Checkpoint& c) { return c.at.step == step; };
  const bool is_used = std::ranges::any_of(used, is_it);
  if (!is_used && std::ranges::none_of(aside, is_it)) {
    std::string steps;
    for (const auto* some : {&used, &aside})
      for (const Checkpoint& c : *some)
        steps += (steps.empty() ? "" : ", ") + std::to_string(c.at.step);
    return Error{ErrorKind::kNotFound,
                 "there is no checkpoint of step " + std::to_string(step) +
                     (steps.empty() ? "; there is none" : "; there are those of " + steps)};
  }
  SLUICE_ASSIGN(there, UntrustedFolder::open(folder));
  for (const Checkpoint& c : used)
    if (c.at.step > step) SLUICE_TRY(rename_in(there, c.at.step, kPrefix, kAside));
  if (!is_used) SLUICE_TRY(rename_in(there, step, kAside, kPrefix));
  fsync(there.fd());
  return {};
}

Result<Checkpoint> copy_checkpoint(const std::string& path, const std::string& folder,
                                   const std::string& aside, const std::atomic<bool>& stopped) {
  uint32_t sum = 0;
  SLUICE_ASSIGN(c, manifest_of(path, &sum));
  const std::string to = folder + "/" + std::string(kPrefix) + std::to_string(c.at.step);
  const std::string copied = aside + "/.copying";
  std::error_code fault;
  fs::remove_all(copied, fault);
  if (!fs::create_directory(copied, fault)) return system_error(copied, fault.value());
  const auto all = [&]() -> Result<void> {
    SLUICE_ASSIGN(from, UntrustedFolder::open(path));
    SLUICE_ASSIGN(state, from.file("state"));
    if (state.size() != static_cast<uint64_t>(c.bytes))  // a sparse one fills no disk
      return Error{ErrorKind::kInvalid, path + "/state: is damaged: its size differs"};
    SLUICE_TRY(copy_file(state, copied + "/state", 0644, stopped));
    SLUICE_ASSIGN(copy, RegularFile::open(copied + "/state"));
    SLUICE_TRY(check_state(copy, sum, path, stopped));
    if (fsync(copy.fd()) != 0) return within(copied, system_error("fsync"));
    SLUICE_TRY(replace_file(copied + "/manifest", as_text(c, sum), 0644, Flush::kYes));
    for (const char* entry : {"", "/manifest", "/state"})  // workers read it, whatever the umask is
      if (::chmod((copied + entry).c_str(), *entry == 0 ? 0755 : 0644) != 0)
        return system_error(copied);
    return give_name(copied, to);
  }();
  if (!all.ok()) {
    fs::remove_all(copied, fault);
    return all.error();
  }
  c.path = to;
  return c;
}

}  // namespace sluice::train
