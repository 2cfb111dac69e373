// A node daemon on emulated GPUs, and unmodified CUDA programs, started as the node says.
#pragma once

#include "tests/emulator/machine.h"
#include "tests/support/emulated_gpus.h"
#include "tests/support/node.h"

namespace sluice {

class NodeWithGpus : public EmulatedGpus {
 protected:
  static constexpr const char* kTwoGpus = "devices=2 memory_mib=1024 nvlinks=4";
  explicit NodeWithGpus(const char* gpus = kTwoGpus,
                        std::vector<std::string> flags = {"--price-per-gpu-hour", "2"},
                        const char* main = "node_main") {
    make(gpus);
    flags.insert(flags.end(), {"--nvml", SLUICE_EMULATED_NVML});
    node_ = std::make_unique<Node>(std::move(flags), nullptr, main);
  }
  ~NodeWithGpus() override {
    for (const pid_t program : programs_) {
      kill(program, SIGKILL);
      waitpid(program, nullptr, 0);
    }
    node_.reset();
  }

  json device(const std::string& id) {
    const json state = node_->get("/v1/state");
    for (const json& d : state["devices"])
      if (d["id"] == id) return d;
    return nullptr;
  }
  json take(pid_t pid, const std::string& on, const json& slice = Node::slice(200),
            const char* id = "program") {
    return node_->insist(verb::post, "/v1/processes",
                         {{"id", id}, {"pid", pid}, {"device", on}, {"slice", slice}});
  }

  // A program: its path, its word, and whether the hook is preloaded.
  struct Start {
    const char* path;
    const char* word;
    bool hooked = true;
  };
  // Puts a child under a slice, and lets it become the program, as `sluice run` does itself.
  pid_t start_program(const std::string& on, const Start& what, const json& slice,
                      const char* id = "program") {
    int lines[2];
    EXPECT_EQ(pipe2(lines, O_CLOEXEC), 0);  // a daemon that starts meanwhile does not inherit it
    const pid_t program = fork();
    if (program == 0) become_program(lines, what);
    programs_.push_back(program);
    close(lines[0]);
    const json taken = take(program, on, slice, id);
    EXPECT_EQ(taken["status"], 200) << taken;
    EXPECT_EQ(taken["preload"], json({"libsluice_cuda.so", "libsluice_nvml.so"}));
    std::string text = "LD_LIBRARY_PATH=" SLUICE_EMULATED_DRIVER_FOLDER "\n";
    if (what.hooked) text += "LD_PRELOAD=" SLUICE_CUDA_HOOK "\n";
    for (const auto& [name, value] : taken["environment"].items())
      text += name + "=" + value.get<std::string>() + "\n";
    EXPECT_EQ(write(lines[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(lines[1]);
    return program;
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

  // The span is measured.
  static void let_programs_work(Nanos span) { usleep(static_cast<useconds_t>(span / Micros(1))); }

  Nanos busy(unsigned device) {
    const emulator::Machine::Lock lock(*machine_);
    return Nanos(lock->devices[device].device_busy_ns());
  }

  std::unique_ptr<Node> node_;
  std::vector<pid_t> programs_;
};

}  // namespace sluice
