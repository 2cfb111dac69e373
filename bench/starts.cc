// starts: 256 programs started at once on an emulated GPU, under the hook and without it: the time
// of each until its first launch has completed, and the hook's part in it. They are of four slices.
// No program attaches twice, and they share no lock except the emulated device's, which both kinds
// have.
//
//   bench_starts [--programs N] [--json FILE]
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "abi/cuda_abi.h"
#include "base/check.h"
#include "bench/report.h"
#include "bench/sliced_device.h"
#include "tests/emulator/machine.h"

namespace sluice::bench {
namespace {

constexpr int kSlices = 4;
constexpr int kRounds = 5;
constexpr int kPatienceMs = 60'000;

// The started program: one launch, waited for, and a word at its end.
int be_program() {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction work = nullptr;
  const bool done =
      cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
      cuCtxSetCurrent(context) == CUDA_SUCCESS &&
      cuModuleLoadData(&module, "kernel work ns=10000") == CUDA_SUCCESS &&
      cuModuleGetFunction(&work, module, "work") == CUDA_SUCCESS &&
      cuLaunchKernel(work, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) == CUDA_SUCCESS &&
      cuCtxSynchronize() == CUDA_SUCCESS;
  const char word = done ? 'y' : 'n';
  if (write(STDOUT_FILENO, &word, 1) == 1) pause();
  return 1;
}

class Bed {
 public:
  Bed() : folder_("/dev/shm/sluice-starts-" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
    emulator::MachineSpec spec;
    spec.context_memory = 0;
    machine_ = emulator::Machine::open(folder_ + "/gpu", spec);
    SLUICE_CHECK(machine_ != nullptr, "the emulated machine");
    device_.serve(folder_ + "/permit.sock");
  }
  ~Bed() { std::filesystem::remove_all(folder_); }
  Bed(const Bed&) = delete;

  // Starts them all. Returns the ms from there until the last has done its work; below 0 if one has
  // not.
  double start(int programs, bool hooked) {
    int words[2];
    SLUICE_CHECK(pipe2(words, O_CLOEXEC) == 0, "pipe");
    std::vector<pid_t> pids;
    const Time begin = clock_.now();
    for (int i = 0; i < programs; ++i) pids.push_back(start_one(words[1], hooked));
    close(words[1]);
    int done = 0;
    pollfd word{words[0], POLLIN, 0};
    for (char c = 0; done < programs && poll(&word, 1, kPatienceMs) == 1;)
      if (read(words[0], &c, 1) == 1 && c == 'y')
        ++done;
      else
        break;
    const Nanos took = clock_.now() - begin;
    close(words[0]);
    attached_ = device_.attached();
    for (const pid_t pid : pids) kill(pid, SIGKILL);
    for (const pid_t pid : pids) waitpid(pid, nullptr, 0);
    return done == programs ? millis(took) : -1;
  }
  int attached() const { return attached_; }  // of the last started ones

 private:
  pid_t start_one(int out, bool hooked) const {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(out, STDOUT_FILENO);
    setenv("SLUICE_EMULATED_GPU", (folder_ + "/gpu").c_str(), 1);
    setenv("LD_LIBRARY_PATH", SLUICE_EMULATED_DRIVER_FOLDER, 1);
    if (hooked) setenv("LD_PRELOAD", SLUICE_CUDA_HOOK, 1);
    execl("/proc/self/exe", "bench_starts", "program", nullptr);
    _exit(127);
  }

  const std::string folder_;
  SteadyClock clock_;
  std::unique_ptr<emulator::Machine> machine_;
  SlicedDevice device_{kSlices};
  int attached_ = 0;
};

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  if (argc == 2 && std::string_view(argv[1]) == "program") return be_program();
  Report report("starts", argc, argv);
  const int programs = int_argument(argc, argv, "--programs", 256);
  Bed bed;
  std::vector<double> hooked, bare;
  for (int round = 0; round < kRounds; ++round) {
    bare.push_back(bed.start(programs, false));
    hooked.push_back(bed.start(programs, true));
    if (hooked.back() < 0 || bare.back() < 0) report.fail("a program did not work");
    if (bed.attached() != programs) report.fail("a program was not attached");
  }
  const Samples with = summarise(hooked), without = summarise(bare);
  report.add(
      Row(std::to_string(programs) + " programs at once, until the last has worked", with.p50, "ms")
          .beside("without the hook", without.p50)
          .of(with)
          .ratio_at_most(2));
  report.note(
      "all started one behind the other, until the last has waited for its first launch; "
      "emulated device");
  return report.finish();
}
