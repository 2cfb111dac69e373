// How programs that know nothing of it come by the hook: preloaded, or in the driver's place; and
// that those without CUDA do not notice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "tests/support/child.h"
#include "tests/support/folder.h"
#include "tests/support/hooked_process.h"

namespace sluice::hook {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;
using Environment = std::map<std::string, std::string>;

// What a program prints, errors included, in this environment alone.
std::string output_of(const std::vector<std::string>& command, const Environment& environment) {
  return in_child([&](int out) {
           dup2(out, 1);
           dup2(out, 2);
           close(out);
           clearenv();
           for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
           std::vector<char*> words;
           for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
           words.push_back(nullptr);
           execv(words[0], words.data());
           _exit(127);
         })
      .said;
}

// What the probe prints when its calls reach the driver for tests, and the hook's launch is what it
// is told to call.
std::string reached() {
  const auto result = [](Entry entry) {
    return std::to_string(returned_by(static_cast<unsigned>(entry)));
  };
  return result(Entry::cuInit) + " " + result(Entry::cuCtxSynchronize) + " its\n";
}

class DeliveryTest : public testing::Test {
 protected:
  // A folder that has this file as libcuda.so.1, and as libcuda.so.
  std::string folder_with(const std::string& name, const char* file) const {
    const fs::path folder = fs::path(folder_.path) / name;
    fs::create_directories(folder);
    fs::copy_file(file, folder / "libcuda.so.1");
    fs::create_symlink("libcuda.so.1", folder / "libcuda.so");
    return folder.string();
  }

  const TemporaryFolder folder_;
};

TEST_F(DeliveryTest, PreloadedItIsTheDriverThatProgramsOpen) {
  EXPECT_EQ(output_of({kProbe}, {{"LD_PRELOAD", kHook}, {"SLUICE_CUDA_DRIVER", kRecordingDriver}}),
            reached());
}

TEST_F(DeliveryTest, InFrontOfTheDriverItFindsTheDriverBehind) {
  const std::string ours = folder_with("ours", kHook),
                    theirs = folder_with("theirs", kRecordingDriver);
  EXPECT_EQ(output_of({kProbe}, {{"LD_LIBRARY_PATH", ours + ":" + theirs}}), reached());
}

TEST_F(DeliveryTest, TwiceInFrontOfTheDriverItStillFindsIt) {
  const std::string ours = folder_with("ours", kHook),
                    theirs = folder_with("theirs", kRecordingDriver);
  EXPECT_EQ(output_of({kProbe}, {{"LD_PRELOAD", kHook}, {"LD_LIBRARY_PATH", ours + ":" + theirs}}),
            reached());
}

// As numba does, and much that uses ctypes: this name is no SONAME, so preloading alone does not
// answer to it.
TEST_F(DeliveryTest, PreloadedAndInFrontItIsWhatProgramsOpenByTheNameWithoutANumber) {
  const std::string path = SLUICE_HOOK_FOLDER ":" + folder_with("theirs", kRecordingDriver);
  for (const char* name : {"libcuda.so", "libcuda.so.1"})
    EXPECT_EQ(output_of({kProbe, name}, {{"LD_PRELOAD", kHook}, {"LD_LIBRARY_PATH", path}}),
              reached())
        << name;
}

// The same, where the test may lay out a file system as a container's runtime does.
class MountedDeliveryTest : public DeliveryTest {
 protected:
  void SetUp() override {
    if (in_child([](int) { _exit(see_own_mounts() ? 0 : 1); }).status != 0)
      GTEST_SKIP() << "this test may not mount";
  }
  static bool see_own_mounts() {
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, "") == 0;
  }
  static bool bind(const std::string& what, const std::string& where) {
    return mount(what.c_str(), where.c_str(), nullptr, MS_BIND, nullptr) == 0;
  }
  static bool empty(const char* place) { return mount("none", place, "tmpfs", 0, nullptr) == 0; }
  // What the probe prints where `lay_out` has made the file system.
  static std::string output_where(const std::function<bool()>& lay_out,
                                  const Environment& environment) {
    return in_child([&](int out) {
             if (!see_own_mounts() || !lay_out()) _exit(1);
             const std::string said = output_of({kProbe}, environment);
             if (write(out, said.data(), said.size()) < 0) _exit(1);
           })
        .said;
  }
};

TEST_F(MountedDeliveryTest, MountedOverTheDriverItFindsTheDriverWhereThatWasPutAside) {
  const std::string place = folder_with("driver", kRecordingDriver);
  EXPECT_EQ(output_where(
                [&] {
                  return empty("/run") && fs::create_directories("/run/sluice/driver") &&
                         bind(place, "/run/sluice/driver") && bind(kHook, place + "/libcuda.so.1");
                },
                {{"LD_LIBRARY_PATH", place}}),
            reached());
}

TEST_F(MountedDeliveryTest, PreloadedForAllProgramsItIsTheDriverThatTheyOpen) {
  EXPECT_EQ(output_where(
                [] {
                  return empty("/etc") &&
                         bool(std::ofstream("/etc/ld.so.preload") << kHook << "\n");
                },
                {{"SLUICE_CUDA_DRIVER", kRecordingDriver}}),
            reached());
}

TEST_F(DeliveryTest, AProgramWithoutCudaOnlyMapsIt) {
  const std::string maps =
      output_of({"/bin/cat", "/proc/self/maps"},
                {{"LD_PRELOAD", kHook}, {"SLUICE_CUDA_DRIVER", kRecordingDriver}});
  EXPECT_THAT(maps, HasSubstr(fs::path(kHook).filename().string()));
  EXPECT_THAT(maps, Not(HasSubstr(fs::path(kRecordingDriver).filename().string())));
}

TEST_F(DeliveryTest, NothingIsPrintedWhereThereIsNoDriver) {
  EXPECT_EQ(output_of({kProbe}, {{"LD_PRELOAD", kHook}, {"SLUICE_CUDA_DRIVER", "/no/such"}}),
            "100 100 none\n");
}

}  // namespace
}  // namespace sluice::hook
