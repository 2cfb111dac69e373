// A test's program that is led step by step: a line in, a line out. It ends with its owner.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace sluice {

class LedProgram {
 public:
  LedProgram(const std::vector<std::string>& command,
             const std::map<std::string, std::string>& environment) {
    int in[2], out[2];
    EXPECT_EQ(pipe(in), 0);
    EXPECT_EQ(pipe(out), 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      for (const int fd : {in[0], in[1], out[0], out[1]}) close(fd);
      for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
      std::vector<char*> words;
      for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
      words.push_back(nullptr);
      execv(words[0], words.data());
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    to_ = fdopen(in[1], "w");
    from_ = fdopen(out[0], "r");
  }
  ~LedProgram() {
    end();
    fclose(to_);
    fclose(from_);
  }
  LedProgram(const LedProgram&) = delete;

  std::string ask(const std::string& line) {
    tell(line);
    return next();
  }
  // Does not wait for the answer; next() does.
  void tell(const std::string& line) {
    fprintf(to_, "%s\n", line.c_str());
    fflush(to_);
  }
  bool has_answered() const {
    pollfd answer{.fd = fileno(from_), .events = POLLIN, .revents = 0};
    return poll(&answer, 1, 0) != 0;
  }
  std::string next() {
    char line[4096] = "";
    return fgets(line, sizeof line, from_) != nullptr ? line : "";
  }
  // By a kill.
  void end() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
  FILE* to_ = nullptr;
  FILE* from_ = nullptr;
};

}  // namespace sluice
