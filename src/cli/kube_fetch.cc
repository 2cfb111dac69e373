// `sluice kube fetch`: puts a model that is named by URL where its Pod's server finds it. It runs
// before the server, in a container of its own, with a folder that both see, and with the node's
// cache of models, which the server does not see.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>

#include "base/fd.h"
#include "base/log.h"
#include "base/replace_file.h"
#include "base/system_error.h"
#include "cli/kube.h"
#include "control/local/model_fetch.h"
#include "control/local/sha256.h"
#include "control/spec/model_url.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

struct FetchFlags {
  ModelSpec model;
  std::string to, cache, description;
};

// `how`: of flock.
Result<Fd> locked(const std::string& file, int how) {
  Fd lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid() || flock(lock.get(), how) != 0) return system_error(file);
  return lock;
}

// Returns the copy's checksum.
Result<std::string> copy(const std::string& from, const std::string& to) {
  std::ifstream in(from, std::ios::binary);
  std::ofstream out(to, std::ios::binary | std::ios::trunc);
  control::Sha256 hash;
  std::array<char, 65'536> piece;
  while (in.read(piece.data(), piece.size()) || in.gcount() > 0) {
    hash.add({piece.data(), static_cast<size_t>(in.gcount())});
    out.write(piece.data(), in.gcount());
  }
  out.flush();
  if (!in.eof() || !out) return system_error(to);
  return hash.hex();
}

// By way of the node's cache. What lies there is not trusted: the copy has the checksum, or it is
// fetched. The next Pod of the model waits for this one, and finds the file; those of other models
// do not.
Result<void> fetch_by_cache(const FetchFlags& f, const std::string& part) {
  SLUICE_ASSIGN(all, locked(f.cache + "/lock", LOCK_SH));
  std::string name = f.model.sha256;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  SLUICE_ASSIGN(turn, locked(f.cache + "/" + name + ".lock", LOCK_EX));
  control::ModelFetch kept({.folder = f.cache});
  for (bool again = true;; again = false) {
    SLUICE_ASSIGN(path, kept.file(f.model));
    SLUICE_ASSIGN(checksum, copy(path, part));
    if (checksum == fs::path(path).stem()) break;
    if (!again) return Error{ErrorKind::kInternal, f.cache + ": the disk changes what it keeps"};
    log::warn("{}: is damaged, and fetched again", path);
    std::error_code fault;
    fs::remove(path, fault);
  }
  all.reset();
  turn.reset();
  const auto alone = locked(f.cache + "/lock", LOCK_EX | LOCK_NB);
  if (alone.ok()) kept.sweep();
  return {};
}

Result<void> fetch(const FetchFlags& f) {
  SLUICE_TRY(control::parse_model_url(f.model.path));
  const fs::path to(f.to);
  std::string part = f.to + ".part";
  if (!f.cache.empty() && access(f.cache.c_str(), W_OK) == 0) {
    SLUICE_TRY(fetch_by_cache(f, part));
  } else {  // in the same folder, so that the file gets its name at once
    SLUICE_ASSIGN(path, control::ModelFetch({.folder = to.parent_path().string()}).file(f.model));
    part = path;
  }
  // The description first: a model with its final name is complete.
  if (!f.description.empty())
    SLUICE_TRY(replace_file(fs::path(to).replace_extension(".json"), f.description, 0644));
  std::error_code fault;
  fs::permissions(part, fs::perms(0644), fault);
  if (!fault) fs::rename(part, to, fault);
  if (fault) return system_error(f.to, fault.value());
  return {};
}

}  // namespace

void add_kube_fetch(CLI::App& kube, Outcome& outcome) {
  auto f = std::make_shared<FetchFlags>();
  CLI::App* command =
      kube.add_subcommand("fetch", "fetch a model by URL and checksum, before its server starts");
  command->add_option("--uri", f->model.path, "https:// or http://")->required();
  command->add_option("--sha256", f->model.sha256, "of the file")->required();
  command->add_option("--to", f->to, "the model's file, such as /model/model.pt")->required();
  command->add_option("--cache", f->cache,
                      "a folder of the node's that keeps models for an hour; used if it may be "
                      "written");
  command->add_option("--description", f->description, "what its NAME.json is to say");
  command->callback([f, &outcome] { outcome = fetch(*f); });
}

}  // namespace sluice::cli
