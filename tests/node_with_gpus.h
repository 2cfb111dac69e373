// A node daemon on two emulated GPUs, and a CUDA program that knows nothing of Sluice, started as
// the node says.
#pragma once

#include "emulator/machine.h"
#include "tests/emulated_gpus.h"
#include "tests/node_harness.h"

namespace sluice {

class NodeWithGpus : public EmulatedGpus {
 protected:
  NodeWithGpus() {
    make("devices=2 memory_mib=1024 nvlinks=4");
    node_ = std::make_unique<Node>(
        std::vector<std::string>{"--nvml", SLUICE_EMULATED_NVML, "--price-per-gpu-hour", "2"});
  }
  ~NodeWithGpus() override {
    if (program_ > 0) {
      kill(program_, SIGKILL);
      waitpid(program_, nullptr, 0);
    }
    node_.reset();
  }

  json device(const std::string& id) {
    const json state = node_->get("/v1/state");
    for (const json& d : state["devices"])
      if (d["id"] == id) return d;
    return nullptr;
  }
  json take(pid_t pid, const std::string& on, const json& slice = Node::slice(200)) {
    return node_->call(verb::post, "/v1/processes",
                       {{"id", "program"}, {"pid", pid}, {"device", on}, {"slice", slice}});
  }

  // What a program is: its path, its word, and whether the hook is loaded before it.
  struct Start {
    const char* path;
    const char* word;
    bool hooked = true;
  };
  // Puts a child under a slice, and lets it become the program, as `sluice run` does itself.
  void start_program(const std::string& on, const Start& what, const json& slice) {
    int lines[2];
    ASSERT_EQ(pipe(lines), 0);
    program_ = fork();
    if (program_ == 0) become_program(lines, what);
    close(lines[0]);
    const json taken = take(program_, on, slice);
    EXPECT_EQ(taken["status"], 200) << taken;
    EXPECT_EQ(taken["preload"], json({"libsluice_cuda.so", "libsluice_nvml.so"}));
    std::string text = "LD_LIBRARY_PATH=" SLUICE_EMULATED_DRIVER_FOLDER "\n";
    if (what.hooked) text += "LD_PRELOAD=" SLUICE_CUDA_HOOK "\n";
    for (const auto& [name, value] : taken["environment"].items())
      text += name + "=" + value.get<std::string>() + "\n";
    EXPECT_EQ(write(lines[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(lines[1]);
  }
  [[noreturn]] static void become_program(const int (&lines)[2], const Start& what) {
    close(lines[1]);
    FILE* in = fdopen(lines[0], "r");
    char line[4096];
    while (fgets(line, sizeof line, in) != nullptr) {
      line[strcspn(line, "\n")] = 0;
      putenv(strdup(line));
    }
    execl(what.path, what.path, what.word, nullptr);
    _exit(127);
  }

  Nanos busy(unsigned device) {
    const emulator::Machine::Lock lock(*machine_);
    return Nanos(lock->devices[device].device_busy_ns());
  }
  std::unique_ptr<Node> node_;
  pid_t program_ = 0;
};

}  // namespace sluice
