#include "control/local/job_inputs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <deque>
#include <filesystem>
#include <map>
#include <set>

#include "base/copy_file.h"
#include "base/readable.h"
#include "base/system_error.h"

namespace sluice::control {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestScript = 4 << 20;       // that is searched for names
constexpr uint64_t kMostInputBytes = 256 << 20;  // of all that a command brings
constexpr size_t kMostInputFiles = 10'000;       // of a command, and of a data set
constexpr char kUsers[] =
    "cannot be read by workers, which run as users of their own (61000 and up)";
constexpr char kRemedy[] =
    "put it where all may read it, or open it and the folders above it (chmod o+rx)";

Error closed(const std::string& path, const std::string& why = "") {
  return {ErrorKind::kInvalid, path + " " + kUsers + why + ": " + kRemedy};
}

bool open_to_all(const fs::path& path) {
  std::error_code fault;
  return fs::is_directory(path, fault) ? runnable_by_all(path) : readable_by_all(path);
}

// Returns the path that a word of a command is, or ends with behind a '='; empty: none.
std::string path_in(const std::string& word) {
  const size_t begin = word.starts_with('/') ? 0 : word.find("=/");
  if (begin == word.npos) return "";
  std::string path = word.substr(begin == 0 ? 0 : begin + 1);
  std::error_code fault;
  return fs::exists(path, fault) ? path : "";
}

// Returns the words of a text that could name a file, or a module of Python.
std::set<std::string> names_in(const std::string& text) {
  std::set<std::string> names;
  const auto part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
  };
  for (size_t at = 0; at < text.size();) {
    size_t end = at, begin = at;  // of a run with dots; of a part of it
    for (; end < text.size() && (part(text[end]) || text[end] == '.'); ++end) {
      if (text[end] != '.') continue;
      names.insert(text.substr(begin, end - begin));
      begin = end + 1;
    }
    names.insert(text.substr(begin, end - begin));
    names.insert(text.substr(at, end - at));
    at = std::max(end, at + 1);
  }
  names.erase("");
  return names;
}

// What a command brings: files by their paths, with the paths of their copies.
class Bundle {
 public:
  explicit Bundle(std::string folder) : folder_(std::move(folder)) {}

  // Adds a file and, of a script, what it names. Returns where its copy will be.
  Result<std::string> add(const std::string& path) {
    SLUICE_ASSIGN(copy, take(path));
    while (!unsearched_.empty()) {
      const std::string next = std::move(unsearched_.front());
      unsearched_.pop_front();
      SLUICE_TRY(search(next));
    }
    return copy;
  }
  const std::map<std::string, std::string>& files() const { return files_; }

 private:
  // Each folder has its own, so that its files lie beside each other again.
  Result<std::string> take(const std::string& path) {
    const fs::path normal = fs::path(path).lexically_normal();
    if (const auto known = files_.find(normal); known != files_.end()) return known->second;
    SLUICE_ASSIGN(file, RegularFile::open(normal));
    bytes_ += file.size();
    if (bytes_ > kMostInputBytes || files_.size() >= kMostInputFiles)
      return closed(path, "; with what it names it has more than " +
                              std::to_string(kMostInputBytes >> 20) + " MiB or " +
                              std::to_string(kMostInputFiles) + " files, which are not copied");
    unsearched_.push_back(normal);
    return files_[normal] = place_of(normal.parent_path()) / normal.filename();
  }
  fs::path place_of(const fs::path& folder) {
    const auto holds = [&](const fs::path& root) {
      const fs::path inside = folder.lexically_relative(root);
      return !inside.empty() && *inside.begin() != "..";
    };
    const auto above = std::find_if(roots_.begin(), roots_.end(), holds);
    const auto number = static_cast<size_t>(std::distance(roots_.begin(), above));
    if (number == roots_.size()) roots_.push_back(folder);
    const fs::path inside = folder.lexically_relative(roots_[number]);
    return (fs::path(folder_) / std::to_string(number) / inside).lexically_normal();
  }
  Result<void> search(const fs::path& path) {
    SLUICE_ASSIGN(file, RegularFile::open(path));
    const std::string text = file.read(0, kLongestScript);
    if (text.find('\0') != text.npos) return {};  // no text
    const std::set<std::string> names = names_in(text);
    std::error_code fault;
    size_t seen = 0;
    for (fs::directory_iterator at(path.parent_path(), fault), end; !fault && at != end;
         at.increment(fault)) {
      if (++seen > kMostInputFiles) break;
      const fs::path beside = at->path();
      const bool named = names.contains(beside.filename()) ||
                         (beside.extension() == ".py" && names.contains(beside.stem()));
      if (!named) continue;
      if (at->is_regular_file(fault)) SLUICE_TRY(without_copy(take(beside)));
      if (at->is_directory(fault) && !at->is_symlink(fault)) SLUICE_TRY(take_all(beside));
    }
    return {};
  }
  Result<void> take_all(const fs::path& folder) {
    std::error_code fault;
    for (fs::recursive_directory_iterator at(folder, fault), end; !fault && at != end;
         at.increment(fault))
      if (at->is_regular_file(fault)) SLUICE_TRY(without_copy(take(at->path())));
    return {};
  }
  static Result<void> without_copy(const Result<std::string>& taken) {
    if (!taken.ok()) return taken.error();
    return {};
  }

  const std::string folder_;
  std::map<std::string, std::string> files_;
  std::vector<fs::path> roots_;
  std::deque<fs::path> unsearched_;
  uint64_t bytes_ = 0;
};

// Collects what the closed words of a command need, and names the copies in their place.
Result<Bundle> bundle_of(std::vector<std::string>& command, const std::string& folder) {
  Bundle bundle(folder);
  for (size_t i = 0; i < command.size(); ++i) {
    const std::string path = path_in(command[i]);
    if (path.empty() || open_to_all(path) || (i == 0 && runnable_by_all(path))) continue;
    std::error_code fault;
    if (fs::is_directory(path, fault)) return closed(path);
    SLUICE_ASSIGN(file, RegularFile::open(path));
    if (i == 0 && file.read(0, 2) != "#!")
      return closed(path, "; a program is not copied, for it may need what is installed with it");
    SLUICE_ASSIGN(copy, bundle.add(path));
    command[i].replace(command[i].size() - path.size(), path.size(), copy);
  }
  return bundle;
}

// Makes a folder and those above it up to `base`, which workers can enter whatever the umask is.
Result<void> make_folder(const fs::path& base, const fs::path& folder) {
  std::error_code fault;
  if (fs::create_directories(folder, fault); fault) return system_error(folder, fault.value());
  for (fs::path at = folder;; at = at.parent_path()) {
    fs::permissions(at, fs::perms(0755), fault);
    if (at == base || at == at.parent_path()) break;
  }
  if (fault) return system_error(folder, fault.value());
  return {};
}

// ---- a data set --------------------------------------------------------------------------------

// A link in a data set is followed as the kernel does in /tmp: if it is root's, or its target's
// owner made it.
bool may_follow(const fs::path& link) {
  struct stat own {
  }, target{};
  return lstat(link.c_str(), &own) == 0 && stat(link.c_str(), &target) == 0 &&
         (own.st_uid == geteuid() || own.st_uid == target.st_uid);
}

// Links a file, or copies it where no link can be or workers could not read it.
Result<void> bring_file(const fs::path& from, const fs::path& to,
                        const std::atomic<bool>& stopped) {
  SLUICE_ASSIGN(file, RegularFile::open(from));
  const std::string opened = "/proc/self/fd/" + std::to_string(file.fd());
  if ((file.about().st_mode & S_IROTH) != 0 &&
      linkat(AT_FDCWD, opened.c_str(), AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW) == 0)
    return {};
  return copy_file(file, to, 0644, stopped);
}

// Calls `take` with each file of a data set and its path in it; the trainer reads arrays alone.
template <class Take>
Result<void> for_each_file(const TrainingSpec& spec, const Take& take) {
  const fs::path root = spec.dataset;
  std::error_code fault;
  if (!fs::is_directory(root, fault)) return take(root, fs::path());
  size_t count = 0;
  for (fs::recursive_directory_iterator at(root, fault), end; !fault && at != end;
       at.increment(fault)) {
    const fs::path path = at->path(), inside = path.lexically_relative(root);
    if (spec.command.empty()) {
      at.disable_recursion_pending();
      if (path.extension() != ".npy" && path.filename() != "index.json") continue;
    }
    if (at->is_directory(fault) && !at->is_symlink(fault)) continue;
    if (++count > kMostInputFiles)
      return Error{ErrorKind::kExhausted,
                   closed(root, "; it has more than " + std::to_string(kMostInputFiles) +
                                    " files, which are not brought")
                       .message};
    if (at->is_symlink(fault) && !may_follow(path))
      return Error{ErrorKind::kInvalid, path.string() + ": is a link to another user's file"};
    SLUICE_TRY(take(path, inside));
  }
  if (fault) return system_error(root, fault.value());
  return {};
}

bool dataset_is_open(const TrainingSpec& spec) {
  if (!open_to_all(spec.dataset)) return false;
  const auto each = for_each_file(spec, [](const fs::path& path, const fs::path&) -> Result<void> {
    return open_to_all(path) ? Result<void>() : closed(path);
  });
  return each.ok() || each.error().kind == ErrorKind::kExhausted;  // the first ones are
}

bool on_one_disk(const fs::path& a, const fs::path& b) {
  struct stat first {
  }, second{};
  return stat(a.c_str(), &first) == 0 && stat(b.parent_path().c_str(), &second) == 0 &&
         first.st_dev == second.st_dev;
}

}  // namespace

Result<void> check_job_inputs(const TrainingSpec& spec) {
  if (geteuid() != 0) return {};
  std::vector<std::string> command = spec.command;
  const auto bundle = bundle_of(command, "");
  if (!bundle.ok()) return within("command", bundle.error());
  std::error_code fault;
  if (spec.dataset.empty() || !fs::exists(spec.dataset, fault) || dataset_is_open(spec)) return {};
  const auto each = for_each_file(spec, [](const fs::path& path, const fs::path&) -> Result<void> {
    const auto file = RegularFile::open(path);
    return file.ok() ? Result<void>() : file.error();
  });
  if (each.ok()) return {};
  return Error{ErrorKind::kInvalid, "dataset: " + each.error().message};
}

Result<std::vector<std::string>> bring_command(const std::vector<std::string>& command,
                                               const std::string& folder,
                                               const std::atomic<bool>& stopped) {
  std::vector<std::string> words = command;
  if (geteuid() != 0) return words;
  std::error_code fault;
  fs::remove_all(folder, fault);
  SLUICE_ASSIGN(bundle, bundle_of(words, folder));
  for (const auto& [from, to] : bundle.files()) {
    SLUICE_ASSIGN(file, RegularFile::open(from));
    SLUICE_TRY(make_folder(folder, fs::path(to).parent_path()));
    SLUICE_TRY(copy_file(file, to, 0644 | (file.about().st_mode & 0111), stopped));
  }
  return words;
}

Result<std::string> bring_dataset(const TrainingSpec& spec, const std::string& to,
                                  const std::atomic<bool>& stopped) {
  std::error_code fault;
  if (spec.dataset.empty() || geteuid() != 0 || !fs::exists(spec.dataset, fault))
    return spec.dataset;
  if (fs::exists(to, fault)) return to;
  if (dataset_is_open(spec) && !(spec.command.empty() && on_one_disk(spec.dataset, to)))
    return spec.dataset;
  const std::string aside = to + ".new";
  fs::remove_all(aside, fault);
  const auto brought =
      for_each_file(spec, [&](const fs::path& path, const fs::path& inside) -> Result<void> {
        const fs::path copy = inside.empty() ? fs::path(aside) : aside / inside;
        if (!inside.empty()) SLUICE_TRY(make_folder(aside, copy.parent_path()));
        return bring_file(path, copy, stopped);
      });
  if (!brought.ok()) {
    fs::remove_all(aside, fault);
    return brought.error();
  }
  if (!fs::exists(aside, fault)) return spec.dataset;  // nothing in it: the worker says so
  if (fs::rename(aside, to, fault); fault) return system_error(to, fault.value());
  return to;
}

}  // namespace sluice::control
