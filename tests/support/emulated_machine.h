// Tests of the emulated machine: a folder for it, the machine itself, and children as its clients.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "tests/emulator/machine.h"
#include "tests/emulator/settings.h"

namespace sluice::emulator {

inline constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

class MachineFixture : public testing::Test {
 protected:
  MachineFixture() {
    char name[] = "/tmp/sluice-emulator-XXXXXX";
    folder_ = mkdtemp(name);
    setenv("SLUICE_EMULATED_GPU", path().c_str(), 1);  // the emulated libraries find it there
  }
  ~MachineFixture() override { std::filesystem::remove_all(folder_); }

  std::string path() const { return folder_ + "/gpu"; }
  std::unique_ptr<Machine> open(const char* settings) const {
    MachineSpec spec;
    std::string why;
    EXPECT_TRUE(read_settings(settings, spec, why)) << why;
    auto machine = Machine::open(path(), spec);
    EXPECT_NE(machine, nullptr);
    return machine;
  }

  // Runs `body` in a child that ends after it. Returns its pid.
  template <typename F>
  static pid_t child(F&& body) {
    const pid_t pid = fork();
    if (pid == 0) {
      body();
      _exit(0);
    }
    return pid;
  }

 private:
  std::string folder_;
};

}  // namespace sluice::emulator
