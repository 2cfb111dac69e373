// Memory of a GPU that two programs of one slice share, through a node daemon that is killed: what
// the device itself says stays within the slice. A context is 256 MiB there.
#include <sys/stat.h>

#include <fstream>

#include "base/eventually_for_test.h"
#include "emulator/device_memory.h"
#include "tests/node_with_gpus.h"

namespace sluice {
namespace {

constexpr Bytes kMib = Bytes{1} << 20;
constexpr Bytes kSlice = 768, kContext = 256, kHeadroom = kSlice / 16;  // MiB

class GpuMemory : public NodeWithGpus {
 protected:
  static constexpr int kPrograms = 2;

  // What tells a program what to do, and hears what came of it.
  struct Line {
    FILE* to = nullptr;
    FILE* from = nullptr;
  };
  GpuMemory() {
    std::ofstream script(folder_ + "/script");
    for (int i = 0; i < kPrograms; ++i) {
      const std::string in = folder_ + "/in" + std::to_string(i), out = in + ".out";
      mkfifo(in.c_str(), 0600);
      mkfifo(out.c_str(), 0600);
      lines_[i] = {fopen(in.c_str(), "r+e"), fopen(out.c_str(), "r+e")};
      script << SLUICE_CUDA_MEMORY " <" << in << " >" << out << " &\n";
    }
    script << "wait\n";
  }
  ~GpuMemory() override {
    for (const Line& line : lines_) {
      fclose(line.to);
      fclose(line.from);
    }
  }

  void start() {
    const std::string script = folder_ + "/script";
    start_program("cuda1", {"/bin/sh", script.c_str()}, Node::slice(500, 0, kSlice * kMib));
    for (int i = 0; i < kPrograms; ++i) EXPECT_EQ(answer(i), 0);
  }
  // The driver's result, and the number behind it.
  int answer(int program, Bytes* number = nullptr) {
    char line[512] = "";
    EXPECT_NE(fgets(line, sizeof line, lines_[program].from), nullptr);
    char* end = nullptr;
    const int result = static_cast<int>(strtol(line, &end, 10));
    if (number != nullptr) *number = strtol(end, nullptr, 10);
    return result;
  }
  int ask(int program, const std::string& what, Bytes* number = nullptr) {
    fprintf(lines_[program].to, "%s\n", what.c_str());
    fflush(lines_[program].to);
    return answer(program, number);
  }
  Bytes on_device() {
    const emulator::Machine::Lock lock(*machine_);
    return static_cast<Bytes>(emulator::memory_used(*lock, 1)) / kMib;
  }
  // As the daemon lists it, in MiB.
  Bytes held() {
    const json state = node_->get("/v1/state");
    return state["instances"][0].value("memory_held", Bytes{0}) / kMib;
  }
  Bytes available(int program) {
    Bytes left = 0;
    EXPECT_EQ(ask(program, "info", &left), 0);
    return left;
  }

  Line lines_[kPrograms];
};

TEST_F(GpuMemory, OneProgramIsNotLentWhatAnotherHasWhenTheDaemonIsKilled) {
  start();
  for (int i = 0; i < kPrograms; ++i) EXPECT_EQ(ask(i, "plain 2"), 0);
  const Bytes left = kSlice - kPrograms * (kContext + 2);
  EXPECT_TRUE(eventually("contexts to be charged",
                         [&] { return available(0) <= left + kPrograms * kHeadroom; }));
  EXPECT_EQ(ask(1, "plain 64"), 0);
  EXPECT_GE(held(), kPrograms * (kContext + 2 - kHeadroom) + 64);
  EXPECT_LE(held(), kSlice);

  node_->restart();
  EXPECT_EQ(node_->get("/v1/state")["status"], 200);
  while (ask(0, "plain 4") == 0) ASSERT_LE(on_device(), kSlice + kPrograms * kHeadroom);
  std::printf("%ld of %ld MiB\n", on_device(), kSlice);
}

}  // namespace
}  // namespace sluice
