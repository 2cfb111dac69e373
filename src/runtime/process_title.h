// What `ps` and `top` show of a process that was forked and never executed anything of its own.
#pragma once

#include <string>

namespace sluice::runtime {

// `name` as the short one (the kernel keeps 15 characters), `title` in the place of the command
// line, cut to the room that the process's arguments had. REQUIRES: nobody reads argv any more.
void set_process_title(const char* name, const std::string& title);

}  // namespace sluice::runtime
