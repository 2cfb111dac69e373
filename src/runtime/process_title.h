// The name that `ps` and `top` show for a process that was forked without exec.
#pragma once

#include <string>

namespace sluice::runtime {

// Sets `name` as the short name (the kernel keeps 15 characters), and `title` in place of the
// command line, cut to the size of the process's arguments.
// REQUIRES: argv is not read any more.
void set_process_title(const char* name, const std::string& title);

}  // namespace sluice::runtime
