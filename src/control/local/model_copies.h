// The platform's own copies of the models that revisions serve, by content: a revision starts with
// the bytes that it was applied with, whatever happened to the user's file since.
//
//   FOLDER/HASH.pt    the model file
//   FOLDER/HASH.json  its inputs and outputs, as the revision has them
//
// HASH is the SHA-256 of both. A hard link would change with the user's file if that is written in
// place, so each content is a copy; file systems that clone share its blocks. Of a file that was
// fetched it is a link. A copy without a revision or an apply that uses it is removed.
//
// Threads: the port's.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/regular_file.h"
#include "control/local/model_fetch.h"
#include "control/local/program_copies.h"
#include "control/models.h"

namespace sluice::control {

// Returns the path of the model for a start: its copy, or the user's file for a revision older than
// copies.
std::string start_path(const std::string& folder, const ModelSpec& model);

class ModelCopies : public Models {
 public:
  // A file is copied only if its copy passes `check`. `programs`: the folder of ProgramCopies.
  // `secrets`: the folder of the programs' secrets. Models at URLs are fetched into FOLDER/fetched,
  // with that patience.
  using Check = Result<void> (*)(const ModelSpec& model, const std::string& path);
  explicit ModelCopies(std::string folder, Check check = nullptr, std::string programs = {},
                       std::string secrets = {}, Nanos patience = Nanos::max())
      : folder_(std::move(folder)),
        check_(check),
        programs_(std::move(programs)),
        secrets_(std::move(secrets)),
        fetch_({.folder = folder_ + "/fetched", .patience = patience}) {}

  // `path` is the copy's, or the user's file's for a revision older than copies.
  ModelSpec for_start(const ModelSpec& model) const override;
  // A failed start names the copy that it read; the user knows the original file. If the copy is
  // gone, the error says so, because the user's file may be there.
  std::string for_user(std::string error, const ModelSpec& model) const override;
  Result<void> check(ModelSpec& model) const override;
  Result<void> identify(ModelSpec& model) const override;
  // A file that has not changed since its last keep() is not read again.
  Result<Hold> keep(ModelSpec& model) override;
  void set_used(std::set<std::string> contents) override;
  // Also removes half-made files of a dead process. Files with other names stay.
  void sweep() override;
  void stop() override {
    stopped_ = true;
    fetch_.stop();
  }

 private:
  // A file's state when its content was named.
  struct Known {
    struct stat file {};
    std::string description;
    std::string content;
  };

  std::optional<std::string> known(const std::string& path, const struct stat& file,
                                   const std::string& description) const;
  // Notes the content of a file that is read from `begun` on, by the clock of its file system.
  void note(const std::string& path, time_t begun, Known file) const;
  Result<void> check_fetched(ModelSpec& model) const;
  Result<std::string> file_of(const ModelSpec& model) const;
  Result<Hold> put(const RegularFile& from, const std::string& path, ModelSpec& model,
                   const std::string& description, const std::string& aside);
  Result<std::string> copy(const RegularFile& from, const std::string& path, const ModelSpec& model,
                           const std::string& description, const Fd& to,
                           const std::string& aside) const;
  Result<void> give_name(const std::string& aside, const std::string& path,
                         const std::string& description);
  Result<Hold> keep_program(ModelSpec& model);
  Hold hold_copy(ModelSpec& model, const std::string& content);
  Hold hold(const std::string& name);
  std::string next_name(const char* suffix);  // REQUIRES: `mutex_` is held
  std::string put_aside(const std::string& file);

  const std::string folder_;
  const Check check_;
  ProgramCopies programs_;
  const std::string secrets_;
  mutable ModelFetch fetch_;
  std::atomic<bool> stopped_ = false;
  // Held while a finished copy gets its name: another may have the same content.
  std::mutex naming_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Known> known_;  // by path
  std::multiset<std::string> held_;             // contents in use by a keep(), and files it writes
  std::set<std::string> used_;
  bool used_known_ = false;  // no copy is removed before
  uint64_t next_ = 0;
};

}  // namespace sluice::control
