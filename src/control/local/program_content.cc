#include "control/local/program_content.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "control/local/sha256.h"
#include "wire/json/function_json.h"
#include "wire/secret_file.h"

namespace sluice::control {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceRead = 1 << 20, kMostFiles = 10'000, kDeepest = 64;
constexpr uint64_t kMostBytes = uint64_t{1} << 30, kLongestScript = 1 << 20;

Error invalid(const std::string& path, const std::string& why) {
  return {ErrorKind::kInvalid, "server.files: " + path + ": " + why};
}

Result<void> add(Sha256& hash, const std::string& name, const RegularFile& file,
                 const std::atomic<bool>& stopped) {
  const std::string about =
      name + '\0' + (is_runnable(file) ? "x" : "-") + std::to_string(file.size()) + '\0';
  hash.add(about);
  if (file.size() > kMostBytes) {
    hash.add(std::to_string(file.about().st_mtim.tv_sec) + '\0');
    return {};
  }
  for (uint64_t at = 0; at < file.size(); at += kPieceRead) {
    if (stopped) return Error{ErrorKind::kUnavailable, "the platform is shutting down"};
    const std::string piece = file.read(at, kPieceRead);
    if (piece.size() < std::min<uint64_t>(kPieceRead, file.size() - at))
      return Error{ErrorKind::kConflict, name + ": became shorter while it was read"};
    hash.add(piece);
  }
  return {};
}

// The files of a working folder, by name.
class Collected {
 public:
  using Folder = std::shared_ptr<const UntrustedFolder>;

  Result<void> add_file(const Folder& root, const std::string& below, const std::string& name) {
    const WorkingFile found(root, below, name);
    SLUICE_ASSIGN(file, found.open());
    // Root would read it for any client of the API.
    if (geteuid() == 0 && (file.about().st_mode & S_IROTH) == 0)
      return invalid(root->path() + "/" + below,
                     "others may not read it, and every instance could (chmod o+r, or a secret: "
                     "env: {NAME: {file: SECRET}})");
    bytes_ += file.size();
    if (files_.size() >= kMostFiles || bytes_ > kMostBytes)
      return invalid(root->path() + "/" + below,
                     "there are more than " + std::to_string(kMostFiles) + " files, or " +
                         std::to_string(kMostBytes >> 20) +
                         " MiB; larger data belongs where all may read it");
    if (!files_.emplace(name, found).second)
      return invalid(root->path() + "/" + below, "there is another " + name);
    return {};
  }
  // Adds what is in a folder. `below`: its path below the root; empty, or with a "/" at its end.
  Result<void> add_folder(const Folder& root, const UntrustedFolder& folder,
                          const std::string& below, const std::string& prefix, size_t depth) {
    if (depth > kDeepest) return invalid(folder.path(), "is too deep");
    for (const std::string& name : folder.names("", kMostFiles + 1)) {
      const auto inner = folder.folder(name);
      if (inner.ok())
        SLUICE_TRY(add_folder(root, *inner, below + name + "/", prefix + name + "/", depth + 1));
      else
        SLUICE_TRY(add_file(root, below + name, prefix + name));
    }
    return {};
  }
  std::vector<WorkingFile> take() const {
    std::vector<WorkingFile> all;
    for (const auto& [name, file] : files_) all.push_back(file);
    return all;
  }

 private:
  std::map<std::string, WorkingFile> files_;
  uint64_t bytes_ = 0;
};

Result<std::shared_ptr<const UntrustedFolder>> open_root(const std::string& path) {
  SLUICE_ASSIGN(folder, UntrustedFolder::open(path));
  return std::make_shared<const UntrustedFolder>(std::move(folder));
}

// "/a/b/" and "/a/b" are the same folder.
Result<void> add_path(Collected& files, const fs::path& path) {
  const bool bare = path.filename().empty();
  const fs::path at = bare ? path.parent_path() : path;
  if (auto root = open_root(at); root.ok())
    return files.add_folder(*root, **root, "", bare ? "" : at.filename().string() + "/", 0);
  if (bare) return invalid(path, "is no folder, or a link to one");
  std::error_code fault;
  const fs::path parent = fs::canonical(at.parent_path(), fault);  // which the user has named
  if (fault) return invalid(path, fault.message());
  SLUICE_ASSIGN(root, open_root(parent));
  if (const auto added = files.add_file(root, at.filename(), at.filename()); !added.ok())
    return invalid(path, added.error().message);
  return {};
}

// An instance reads a volume as any user does, and root would hand it out for any client of the
// API.
Result<void> check_volume(const std::string& path) {
  struct stat about {};
  const auto refused = [&](const std::string& why) {
    return Error{ErrorKind::kInvalid, "server.volumes: " + path + ": " + why};
  };
  if (::stat(path.c_str(), &about) != 0) return refused(std::strerror(errno));
  if (!S_ISDIR(about.st_mode)) return refused("is no folder");
  if (geteuid() != 0) return {};
  constexpr mode_t kRead = S_IROTH | S_IXOTH;
  if ((about.st_mode & kRead) != kRead)
    return refused("others may not read it, and instances run as other users (chmod o+rx)");
  if ((about.st_mode & S_IWOTH) != 0)
    return refused("others may write to it, and instances would (chmod o-w)");
  return {};
}

Result<void> check_volumes(const ProgramSpec& program, const std::vector<WorkingFile>& files) {
  std::set<std::string> names;
  for (const WorkingFile& f : files) names.insert(*fs::path(f.name()).begin());
  for (const std::string& path : program.volumes) {
    SLUICE_TRY(check_volume(path));
    if (!names.insert(fs::path(path).filename()).second)
      return Error{ErrorKind::kInvalid, "server.volumes: " + path + ": the working folder has " +
                                            fs::path(path).filename().string() + " already"};
  }
  return {};
}

}  // namespace

bool is_runnable(const RegularFile& file) {
  return (file.about().st_mode & 0111) != 0;
}

Result<RegularFile> WorkingFile::open() const {
  const fs::path below(below_);
  const UntrustedFolder* at = root_.get();
  std::optional<UntrustedFolder> inner;
  for (const fs::path& part : below.parent_path()) {
    SLUICE_ASSIGN(next, at->folder(part));
    inner.emplace(std::move(next));
    at = &*inner;
  }
  return at->file(below.filename());
}

Result<std::vector<WorkingFile>> working_files(const ProgramSpec& program) {
  Collected files;
  for (const std::string& path : program.files) SLUICE_TRY(add_path(files, path));
  return files.take();
}

Result<std::vector<WorkingFile>> files_in(const std::string& folder) {
  Collected files;
  SLUICE_TRY(add_path(files, folder + "/"));
  return files.take();
}

Result<std::string> content_of(const ProgramSpec& program, const std::vector<WorkingFile>& files,
                               const std::atomic<bool>& stopped) {
  nlohmann::json about{{"command", program.command},
                       {"args", program.args},
                       {"env", wire::to_json(program.env)},
                       {"port", program.port},
                       {"port_env", program.port_env},
                       {"readiness", program.readiness},
                       {"http", program.http}};
  // Without imports a content has the name that it had before there were any.
  if (!program.imports.empty()) about["imports"] = program.imports;
  if (!program.volumes.empty()) about["volumes"] = program.volumes;
  if (!program.image.empty()) about["image"] = program.image;
  Sha256 hash(about.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  if (!program.image.empty()) return hash.hex();  // its files are not here
  for (const std::string& word : program.command)
    if (word.starts_with('/'))
      if (const auto named = RegularFile::open(word); named.ok())
        SLUICE_TRY(add(hash, word, *named, stopped));
  for (const std::string& word : program.args)
    if (word.starts_with('/'))
      if (const auto named = RegularFile::open(word); named.ok() && named->size() <= kLongestScript)
        SLUICE_TRY(add(hash, word, *named, stopped));
  for (const WorkingFile& f : files) {
    SLUICE_ASSIGN(file, f.open());
    SLUICE_TRY(add(hash, f.name(), file, stopped));
  }
  return hash.hex();
}

Result<void> check_program(const ProgramSpec& program) {
  const std::string& path = program.command.at(0);
  const auto refused = [&](const std::string& why) {
    return Error{ErrorKind::kInvalid, path + ": " + why};
  };
  SLUICE_ASSIGN(files, working_files(program));
  SLUICE_TRY(check_volumes(program, files));
  if (path.starts_with('/')) {
    SLUICE_ASSIGN(file, RegularFile::open(path));
    if (!is_runnable(file)) return refused("cannot be run (chmod +x)");
    return {};
  }
  const auto found = std::ranges::find(files, path, &WorkingFile::name);
  if (found == files.end()) return refused("is none of server.files");
  SLUICE_ASSIGN(file, found->open());
  if (!is_runnable(file)) return refused("cannot be run (chmod +x)");
  return {};
}

Result<void> check_secrets(const ProgramSpec& program, const std::string& folder) {
  for (const auto& [name, value] : program.env) {
    if (value.secret.empty()) continue;
    const auto read = wire::read_secret(folder, value.secret);
    if (!read.ok()) return within("server.env." + name + ".file", read.error());
  }
  return {};
}

}  // namespace sluice::control
