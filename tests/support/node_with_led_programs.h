// Two CUDA programs of one slice that are led step by step (cuda_memory.cc), on a GPU of a node
// daemon that may be killed meanwhile. A context is 256 MiB there.
#pragma once

#include <sys/stat.h>

#include <fstream>

#include "tests/emulator/device_memory.h"
#include "tests/support/node_with_gpus.h"

namespace sluice {

class NodeWithLedPrograms : public NodeWithGpus {
 protected:
  static constexpr int kPrograms = 2;
  static constexpr Bytes kMib = Bytes{1} << 20;
  static constexpr Bytes kSlice = 768, kContext = 256, kHeadroom = kSlice / 16;  // MiB

  // Sends a program its instructions, and receives the results.
  struct Line {
    FILE* to = nullptr;
    FILE* from = nullptr;
  };
  explicit NodeWithLedPrograms(const char* main = "node_main") : NodeWithGpus(kTwoGpus, {}, main) {
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
  ~NodeWithLedPrograms() override {
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
  // Returns the driver's result; `number` gets the number behind it.
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
  Bytes on_device() { return static_cast<Bytes>(emulator::memory_in_use(*machine_, 1)) / kMib; }
  // Returns the memory held by the daemon's list, in MiB.
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

}  // namespace sluice
