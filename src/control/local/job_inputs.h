// What a job's workers read that the platform did not make: the words of their command, the files
// beside a script, the data set. Workers run under uids of their own, and the folders above such a
// file may be closed to them. The platform then brings the file into the job's folder, which only
// the job's workers may read.
//
//   a script         copied, with the files and folders beside it that it names, and those
//                    that they name
//   another file     copied
//   a data set       linked; copied where no link can be, or would not be readable
//
// A program, or a folder that a command names, is not brought: it is refused, with what to do.
// Only root brings anything. Free functions; any thread; they take as long as the disk does.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/function.h"

namespace sluice::control {

// Checks that workers will be able to read what the job needs. Returns kInvalid with the file, the
// users and what to do.
Result<void> check_job_inputs(const TrainingSpec& spec);

// Brings what the command's words name below `folder`, which is made anew. Returns the command with
// the paths of the copies.
Result<std::vector<std::string>> bring_command(const std::vector<std::string>& command,
                                               const std::string& folder,
                                               const std::atomic<bool>& stopped);

// Brings a data set to `to`, unless it is there already. Returns the path at which workers can read
// it.
Result<std::string> bring_dataset(const TrainingSpec& spec, const std::string& to,
                                  const std::atomic<bool>& stopped);

}  // namespace sluice::control
