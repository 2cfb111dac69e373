// Secrets: files that an operator puts into DATA/secrets, for the variables of programs. A function
// names such a file; the node reads it when it starts an instance, and the value goes nowhere else.
//
// Root reads what a client of the API names, so a name is that of an entry of this one folder.
// Free functions; any thread.
#pragma once

#include <string>

#include "base/result.h"

namespace sluice::wire {

// Returns kInvalid with the allowed form, unless it is a name of letters, digits and - _ . that
// begins with a letter or digit, at most 255 long.
Result<void> check_secret_name(const std::string& name);

// Returns the content of the file, without one newline at its end. Errors are kInvalid, have the
// path, and never the content: `folder` is a link, is another user's or can be written by others;
// the file is missing, a link or no regular file, larger than 64 KiB, or has a NUL.
Result<std::string> read_secret(const std::string& folder, const std::string& name);

}  // namespace sluice::wire
