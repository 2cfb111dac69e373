// Templates of program functions in Python: interpreters that have imported a function's modules
// (`server.imports`), so that an instance is a fork and imports nothing (python/sluice_template.py,
// docs/design/processes.md). Functions share none. A template runs as a program does, without a
// slice, a permit socket and the function's variables, files and secrets.
//
// Belongs to one io_context with one thread, and must outlive its coroutines.
#pragma once

#include <string>
#include <vector>

#include "node/program_environment.h"
#include "node/templates.h"

namespace sluice::node {

struct PythonTemplateSettings {
  std::string script;                      // sluice_template.py
  std::vector<int> cores;                  // where modules are imported; empty: anywhere
  size_t max_templates = 8;                // kept warm; the one unused for longest goes first
  Nanos template_patience = Seconds(300);  // for the imports
  Nanos answer_patience = Seconds(20);     // for a fork
};

// What a template is of; each difference makes another one.
struct PythonTemplate {
  std::string function;
  std::string interpreter;
  std::vector<std::string> imports;
  Variables variables;  // among them the libraries that the kind of device needs
  uid_t uid = 0;        // that it must have; 0: one of the pool
};

class PythonTemplates {
 public:
  // `uids`: nullptr without root. It outlives this.
  PythonTemplates(asio::io_context& io, PythonTemplateSettings settings, UidPool* uids);

  // As Templates::fork_instance. `fds` are plan, control socket, log (wire::StartProgram).
  asio::awaitable<Result<Forked>> fork_instance(const PythonTemplate& which,
                                                std::span<const int, 3> fds);

 private:
  asio::awaitable<Result<void>> load(std::shared_ptr<Template> t, const PythonTemplate& which);
  Result<void> start(Template& t, const PythonTemplate& which);

  asio::io_context& io_;
  const PythonTemplateSettings settings_;
  Templates templates_;
};

}  // namespace sluice::node
