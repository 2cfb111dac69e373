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
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);  // a daemon that starts meanwhile does not inherit it
    const pid_t program = fork();
    if (program == 0) become_program(ends[0], ends[1], what);
    programs_.push_back(program);
    close(ends[0]);
    const json taken = take(program, on, slice, id);
    EXPECT_EQ(taken["status"], 200) << taken;
    EXPECT_EQ(taken["preload"], json({"libsluice_cuda.so", "libsluice_nvml.so"}));
    std::string variables = variable("LD_LIBRARY_PATH", SLUICE_EMULATED_DRIVER_FOLDER);
    if (what.hooked) variables += variable("LD_PRELOAD", SLUICE_CUDA_HOOK);
    for (const auto& [name, value] : taken["environment"].items())
      variables += variable(name, value.get<std::string>());
    EXPECT_EQ(write(ends[1], variables.data(), variables.size()), std::ssize(variables));
    close(ends[1]);
    return program;
  }
  static std::string variable(const std::string& name, const std::string& value) {
    return name + "=" + value + '\0';
  }
  // Takes no memory: another thread of the test may hold the allocator's lock. The new variables
  // stand before the test's own, and so are the ones that are found.
  [[noreturn]] static void become_program(int in, int other_end, const Start& what) {
    static std::array<char, 65536> text;
    static std::array<char*, 1024> variables;
    close(other_end);
    size_t length = 0, count = 0;
    for (ssize_t n; (n = read(in, &text[length], text.size() - length)) > 0;) length += n;
    for (size_t at = 0; at < length; at += strlen(&text[at]) + 1) variables.at(count++) = &text[at];
    for (char** v = environ; *v != nullptr; ++v) variables.at(count++) = *v;
    variables.at(count) = nullptr;
    const char* const words[] = {what.path, what.word, nullptr};
    execve(what.path, const_cast<char**>(words), variables.data());
    _exit(127);
  }

  // Returns the signal; 0 if it has not ended within 100 s.
  static int ended_by(pid_t program) {
    siginfo_t end{};
    if (!ends_within(pidfd_of(program), Seconds(100))) return 0;
    EXPECT_EQ(waitid(P_PID, static_cast<id_t>(program), &end, WEXITED | WNOWAIT), 0);
    return end.si_status;
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
