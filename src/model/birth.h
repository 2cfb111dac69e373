// How an instance is born. Plain values.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/model_spec.h"

namespace sluice {

// A fork of the model's warm template: the model server.
struct ForkOfTemplate {
  ModelSpec model;
  Batching batching;

  bool operator==(const ForkOfTemplate&) const = default;
};

// A program that serves HTTP by itself, or computes for its throughput: by exec, or with `imports`
// as a fork of a template that has imported them.
struct ExecOfProgram {
  std::string image{};                             // of its Pod; empty: the platform's
  std::vector<std::string> command;                // the program's absolute path, then its words
  std::map<std::string, std::string> environment;  // beside what the node sets
  // More variables: the name of the file in DATA/secrets whose content is the value. The node reads
  // it when it starts the program, and keeps no value.
  std::map<std::string, std::string> secrets;
  // The program listens on 127.0.0.1 at this port; 0: a free one. PORT names it, and stands for
  // $(PORT) in words and variables. Absent: it serves on descriptor 3, which listens already
  // (LISTEN_FDS, as systemd hands it over).
  std::optional<int> port;
  // Modules of Python; the command is an interpreter with a script (python_command.h) then.
  std::vector<std::string> imports;
  std::string folder;  // where it begins to work; empty: "/"
  // A folder of root's that it may read, and whose folder `work` is its own: programs that name the
  // same one share a user id. Empty: it has a user id of its own and no folder.
  std::string home;
  // Ready once a GET on it is answered 2xx. Empty: once the port accepts a connection.
  std::string ready_path;
  Nanos ready_within{0};                 // 0: as long as the node waits
  std::string drain_signal = "SIGTERM";  // asks it to finish and leave (drain_signal.h)
  bool serves = true;                    // requests; a training worker does not

  bool operator==(const ExecOfProgram&) const = default;
};

using Birth = std::variant<ForkOfTemplate, ExecOfProgram>;

// Whether it is a fork, whose user id is its template's.
inline bool is_fork(const Birth& birth) {
  const auto* program = std::get_if<ExecOfProgram>(&birth);
  return program == nullptr || !program->imports.empty();
}

}  // namespace sluice
