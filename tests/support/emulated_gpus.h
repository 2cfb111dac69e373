// An emulated machine of GPUs for one test; this process will open its NVML.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/emulator/machine.h"
#include "tests/emulator/settings.h"

namespace sluice {

class EmulatedGpus : public testing::Test {
 protected:
  EmulatedGpus() {
    char name[] = "/tmp/sluice-gpus-XXXXXX";
    folder_ = mkdtemp(name);
    chmod(folder_.c_str(), 0755);  // instances have users of their own
    setenv("SLUICE_EMULATED_GPU", (folder_ + "/gpu").c_str(), 1);
  }
  ~EmulatedGpus() override {
    unsetenv("SLUICE_EMULATED_GPU");
    std::filesystem::remove_all(folder_);
  }

  void make(const char* settings) {
    emulator::MachineSpec spec;
    std::string why;
    ASSERT_TRUE(emulator::read_settings(settings, spec, why)) << why;
    machine_ = emulator::Machine::open(folder_ + "/gpu", spec);
    ASSERT_NE(machine_, nullptr);
  }

  std::string folder_;
  std::unique_ptr<emulator::Machine> machine_;
};

}  // namespace sluice
