// Variables that libraries of a model server read when they are loaded. A server that lacks one
// sets it and starts itself again, which costs the loading of libtorch a second time.
#pragma once

#include <utility>

namespace sluice {

// Waiting OpenMP threads must sleep (spinning on shared cores: 126 times slower); activations must
// not go back to the kernel after each inference (2 times); no warnings from torch's logger.
inline constexpr std::pair<const char*, const char*> kTorchVariables[] = {
    {"OMP_WAIT_POLICY", "passive"},
    {"MALLOC_TRIM_THRESHOLD_", "4000000000"},
    {"MALLOC_MMAP_THRESHOLD_", "4000000000"},
    {"MALLOC_TOP_PAD_", "268435456"},
    {"GLOG_minloglevel", "2"},
};

}  // namespace sluice
