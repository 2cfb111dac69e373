// What libraries read from the environment when they are loaded, before main() can say anything.
#pragma once

namespace sluice::runtime {

// Sets what is missing and runs this program again, with the same arguments; returns when nothing
// was missing. Call first thing in main().
void complete_environment(char** argv);

}  // namespace sluice::runtime
