// Programs for instances that are born by exec. An instance's uid may not reach the build, so they
// are copied to the node's folder.
#pragma once

#include "tests/support/node.h"

namespace sluice {

// Returns the path of the copy of a file or folder, made if it is missing.
inline std::string copy_in(const Node& node, const std::filesystem::path& original) {
  const std::filesystem::path copy = std::filesystem::path(node.data) / original.filename();
  if (!std::filesystem::exists(copy))
    std::filesystem::copy(original, copy, std::filesystem::copy_options::recursive);
  return copy;
}
inline std::string program_in(const Node& node) {
  return copy_in(node, program("fake_runtime"));
}

// It serves on its given port, or on the descriptor that it is handed. `words`: of its model
// (fake_runtime.cc). `first`: the shell's first command.
inline json program_of_node(Node& node, bool has_port, const std::string& words = "",
                            const std::string& first = "") {
  const std::string serve = program_in(node) + " serve --model '" + node.model(words) +
                            "' --name server --listen " + (has_port ? "$PORT" : "fd:3");
  json made = {
      {"command", {"/bin/sh", "-c", first + "exec " + serve}},
      {"environment", {{"ASAN_OPTIONS", "verify_asan_link_order=0"}}},  // the gate precedes it
      {"ready_path", "/"}};
  if (has_port) made["port"] = 0;
  return made;
}

}  // namespace sluice
