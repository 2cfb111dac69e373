#include "control/local/model_fetch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>

#include "base/fd.h"
#include "base/log.h"
#include "base/regular_file.h"
#include "base/replace_file.h"
#include "base/system_error.h"
#include "base/write_all.h"
#include "control/local/sha256.h"
#include "control/spec/model_url.h"

namespace sluice::control {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLargestDescription = 1 << 20;
constexpr Nanos kLongestDescription = Seconds(30);
constexpr time_t kKept = 3600;  // seconds, without a copy
constexpr size_t kChecksumDigits = 64;
constexpr size_t kMostAtOnce = 8;  // files that are fetched on while none waits for them
constexpr size_t kMostKept = 64;   // of these, and of those that have come or failed meanwhile

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::optional<struct stat> state_of(const std::string& path) {
  struct stat state {};
  if (::stat(path.c_str(), &state) != 0) return std::nullopt;
  return state;
}

}  // namespace

std::string ModelFetch::path_of(const std::string& checksum, const char* ending) const {
  return settings_.folder + "/" + checksum + ending;
}

std::shared_ptr<std::mutex> ModelFetch::turn_of(const std::string& checksum) {
  const std::lock_guard lock(mutex_);
  std::erase_if(turns_, [](const auto& turn) { return turn.second.expired(); });
  std::shared_ptr<std::mutex> turn = turns_[checksum].lock();
  if (turn == nullptr) turns_[checksum] = turn = std::make_shared<std::mutex>();
  return turn;
}

Result<void> ModelFetch::make_folder() const {
  std::error_code fault;
  fs::create_directories(settings_.folder, fault);
  if (fault) return system_error(settings_.folder, fault.value());
  fs::permissions(settings_.folder, fs::perms::owner_all, fault);
  return {};
}

Result<wire::TlsContext> ModelFetch::tls_for(const std::string& url) const {
  if (!url.starts_with("https://")) return wire::TlsContext();
  return wire::client_context({.ca = settings_.ca});
}

Result<std::string> ModelFetch::file(const ModelSpec& model) {
  if (settings_.patience == Nanos::max()) return fetched_file(model);
  const std::string checksum = lower(model.sha256);
  if (state_of(path_of(checksum, ".pt"))) return fetched_file(model);
  return within_patience(model, checksum);
}

Result<std::string> ModelFetch::within_patience(const ModelSpec& model,
                                                const std::string& checksum) {
  std::future<Result<std::string>> mine;
  {
    const std::lock_guard lock(mutex_);
    const auto over = [&](const auto& one) {
      return one.first != checksum && one.second.valid() &&
             one.second.wait_for(Nanos(0)) == std::future_status::ready;
    };
    // What has come of a file is returned by the next call for it.
    if (going_on_.size() >= kMostKept) std::erase_if(going_on_, over);
    const auto found = going_on_.find(checksum);
    const auto unfinished =
        going_on_.size() - static_cast<size_t>(std::ranges::count_if(going_on_, over));
    if (found == going_on_.end() && unfinished >= kMostAtOnce)
      return Error{ErrorKind::kUnavailable,
                   model.path + ": waits, as " + std::to_string(kMostAtOnce) +
                       " other models are being fetched. It is tried again"};
    if (found == going_on_.end())
      mine = std::async(std::launch::async, [this, model] { return fetched_file(model); });
    else
      mine = std::move(found->second);
    going_on_.insert_or_assign(checksum, std::future<Result<std::string>>());
  }
  // Another call meanwhile finds an empty future.
  const bool done = mine.valid() && mine.wait_for(settings_.patience) == std::future_status::ready;
  const std::lock_guard lock(mutex_);
  if (done) {
    going_on_.erase(checksum);
    return mine.get();
  }
  if (mine.valid()) going_on_[checksum] = std::move(mine);
  return Error{ErrorKind::kUnavailable, model.path + ": is being fetched. It is tried again"};
}

Result<std::string> ModelFetch::fetched_file(const ModelSpec& model) {
  const std::string checksum = lower(model.sha256), path = path_of(checksum, ".pt");
  SLUICE_TRY(make_folder());
  const std::shared_ptr<std::mutex> turn = turn_of(checksum);
  const std::lock_guard one_at_a_time(*turn);
  SLUICE_TRY(replace_file(path_of(checksum, ".used"), model.path));
  if (state_of(path)) return path;
  const std::string part = path_of(checksum, ".part");
  const auto fetched = fetch(model, part);
  if (fetched.ok() && ::rename(part.c_str(), path.c_str()) == 0) return path;
  const Error why = fetched.ok() ? system_error(path) : fetched.error();
  ::unlink(part.c_str());
  return why;
}

// Writes the file to `path`, and checks it.
Result<void> ModelFetch::fetch(const ModelSpec& model, const std::string& path) {
  SLUICE_ASSIGN(tls, tls_for(model.path));
  const Fd to(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!to.valid()) return system_error(path);
  Sha256 hash;
  log::info("{}: is fetched", model.path);
  SLUICE_TRY(download(model.path, settings_.limits, tls, stopped_,
                      [&](std::string_view piece) -> Result<void> {
                        hash.add(piece);
                        if (!write_all(to.get(), piece)) return system_error(settings_.folder);
                        return {};
                      }));
  if (const std::string found = hash.hex(); found != lower(model.sha256))
    return Error{ErrorKind::kInvalid,
                 model.path + ": has the SHA-256 " + found + ", and the function's file wants " +
                     lower(model.sha256) +
                     ". Correct model.sha256 if the file there is the one that you mean"};
  if (::fsync(to.get()) != 0) return system_error(settings_.folder);
  return {};
}

Result<std::string> ModelFetch::description(const ModelSpec& model) {
  const std::string url = sidecar_url(model.path), kept = path_of(lower(model.sha256), ".json");
  SLUICE_ASSIGN(tls, tls_for(url));
  DownloadLimits limits = settings_.limits;
  limits.bytes = kLargestDescription;
  limits.whole = std::min({limits.whole, kLongestDescription, settings_.patience});
  std::string text;
  const auto fetched =
      download(url, limits, tls, stopped_, [&](std::string_view piece) -> Result<void> {
        text += piece;
        return {};
      });
  if (fetched.ok()) {
    SLUICE_TRY(make_folder());
    SLUICE_TRY(replace_file(kept, text));
    return text;
  }
  if (fetched.error().kind != ErrorKind::kInvalid)
    if (const auto last = RegularFile::open(kept); last.ok())
      return last->text(kLargestDescription);
  return Error{fetched.error().kind,
               fetched.error().message +
                   ". It describes the model's inputs and outputs, which the function's file may "
                   "state in its place (model.inputs, model.outputs)"};
}

// What another process left half-made goes as well. A file in use has its turn taken.
void ModelFetch::sweep() {
  std::error_code fault;
  const std::string clock = settings_.folder + "/now";  // made now, by the file system's clock
  if (!fs::is_directory(settings_.folder, fault) || !replace_file(clock, "").ok()) return;
  const std::optional<struct stat> now = state_of(clock);
  std::vector<std::string> checksums;
  for (fs::directory_iterator at(settings_.folder, fault), end; !fault && at != end;
       at.increment(fault))
    if (const std::string stem = at->path().stem(); stem.size() == kChecksumDigits)
      checksums.push_back(stem);
  for (const std::string& checksum : checksums) {
    const std::shared_ptr<std::mutex> turn = turn_of(checksum);
    const std::unique_lock mine(*turn, std::try_to_lock);
    if (!mine.owns_lock() || !now) continue;
    ::unlink(path_of(checksum, ".part").c_str());
    const auto model = state_of(path_of(checksum, ".pt")),
               used = state_of(path_of(checksum, ".used"));
    if (model && model->st_nlink > 1) continue;
    if (used && now->st_mtim.tv_sec - used->st_mtim.tv_sec < kKept) continue;
    for (const char* ending : {".pt", ".json", ".used", ".lock"})
      ::unlink(path_of(checksum, ending).c_str());
  }
}

}  // namespace sluice::control
