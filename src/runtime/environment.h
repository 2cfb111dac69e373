// Variables that libraries read from the environment when they are loaded, before main() runs.
#pragma once

namespace sluice::runtime {

// Sets missing variables and runs this program again, with the same arguments; returns if none was
// missing. Call first thing in main().
void complete_environment(char** argv);

}  // namespace sluice::runtime
