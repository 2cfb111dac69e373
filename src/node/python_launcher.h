// Instances that are forks of a function's Python template (python_templates.h). Once it goes, a
// fork is what the exec of its command would be: it has the same words, variables, folder and
// address, and becomes ready and ends as a program does.
#pragma once

#include "node/exec_launcher.h"
#include "node/python_templates.h"

namespace sluice::node {

class PythonLauncher : public ExecLauncher {
 public:
  // `of_template`: returns all variables of the template for such a part. `templates` outlives
  // this.
  PythonLauncher(asio::io_context& io, const Clock& clock, EnvironmentOf environment,
                 EnvironmentOf of_template, Nanos ready_patience, PythonTemplates& templates);

  asio::awaitable<Result<Newborn>> bear(const InstanceRecord& r, size_t part) override;

 private:
  const EnvironmentOf of_template_;
  PythonTemplates& templates_;
};

}  // namespace sluice::node
