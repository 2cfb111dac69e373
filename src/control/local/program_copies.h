// The platform's copies of programs' working folders, by content: read-only, for instances to read.
//
//   FOLDER/CONTENT/         a copy
//   FOLDER/PID-N.new, .old  half-made and half-removed ones; of dead processes, they are swept
//
// All may enter FOLDER, and root alone may list it: a process reads a copy only if it knows its
// name. Any thread; takes as long as the disk does.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "control/local/program_content.h"

namespace sluice::control {

class ProgramCopies {
 public:
  explicit ProgramCopies(std::string folder) : folder_(std::move(folder)) {}

  std::string path_of(const std::string& content) const { return folder_ + "/" + content; }

  // Copies the files, unless they are there. Returns kConflict if they are not what `content`
  // names.
  Result<void> keep(const ProgramSpec& program, const std::vector<WorkingFile>& files,
                    const std::string& content, const std::atomic<bool>& stopped);

  // Removes the copies that are not used, and in which no process works. `take_away` renames a
  // copy that is not used to the second path, and returns whether it did.
  using TakeAway = std::function<bool(const std::string& content, const std::string& to)>;
  void sweep(const TakeAway& take_away);

 private:
  std::string next_name(const char* ending);

  const std::string folder_;
  std::atomic<uint64_t> next_ = 0;
};

}  // namespace sluice::control
