// What a program function runs: its words, variables and imports, the files that its command names,
// and the files of its working folder. Its name is the SHA-256 of all that. Of what its arguments
// name, scripts are in it (at most 1 MiB); what is larger is data, which may change while it runs.
// A file that the program finds by itself, such as a library, is not in it.
//
// `server.files` may lie in folders that other users write, and root reads them: nothing in them is
// reached over a link.
//
// Any thread; these functions take as long as the disk does.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/untrusted_folder.h"
#include "model/model_spec.h"

namespace sluice::control {

class WorkingFile {
 public:
  WorkingFile(std::shared_ptr<const UntrustedFolder> root, std::string below, std::string name)
      : root_(std::move(root)), below_(std::move(below)), name_(std::move(name)) {}

  const std::string& name() const { return name_; }  // in the working folder
  Result<RegularFile> open() const;

 private:
  std::shared_ptr<const UntrustedFolder> root_;
  std::string below_, name_;
};
bool is_runnable(const RegularFile& file);

// Returns the files of `server.files`, by name. A folder is all that is in it, under the folder's
// name, or by itself if it ends in "/". Returns kInvalid for what is neither file nor folder, such
// as a link, for two files of one name, and beyond 10,000 files or 1 GiB.
Result<std::vector<WorkingFile>> working_files(const ProgramSpec& program);
// Returns the same of a copy.
Result<std::vector<WorkingFile>> files_in(const std::string& folder);

// Returns kInvalid if the program, or a file, cannot be read; kUnavailable once `stopped`. Of a
// file above 1 GiB that a word names, the size and the time of its change count.
Result<std::string> content_of(const ProgramSpec& program, const std::vector<WorkingFile>& files,
                               const std::atomic<bool>& stopped);

// Returns kInvalid, with the field, if there is no such program, or it may not be run.
Result<void> check_program(const ProgramSpec& program);

// Returns kInvalid, with the field, if a secret of the program cannot be read.
Result<void> check_secrets(const ProgramSpec& program, const std::string& folder);

}  // namespace sluice::control
