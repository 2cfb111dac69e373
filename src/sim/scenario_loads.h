// The loads of a scenario file: when requests of each function arrive, by rates in the file, by
// files of rates, or at recorded times.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "sim/scenario.h"
#include "sim/scenario_fields.h"

namespace sluice::sim {

// Reads loads into a scenario whose functions and duration are known. All loads together are
// bounded, so one object reads all of a scenario's. Used by one parse, on one thread.
class LoadReader {
 public:
  // Files are of `folder`.
  LoadReader(const ScenarioPart& spec, const std::filesystem::path& folder, Scenario& out)
      : spec_(spec), folder_(folder), out_(out) {}

  // Reads one item of spec.loads.
  void read(control::Fields& f);
  // Adds a load; its steps and arrivals count. Problems are those of `f`.
  void keep(control::Fields& f, Load load);

 private:
  void from_file(control::Fields& f, Load& load);
  void stages(control::Fields& f, Load& load);
  void gaps(control::Fields& f, Load& load);

  const ScenarioPart spec_;
  const std::filesystem::path folder_;
  Scenario& out_;
  size_t steps_ = 0, arrivals_ = 0;  // of the loads so far
};

// Reads the name of one of the functions under the key `function`.
void read_function(control::Fields& f, const std::vector<FunctionSpec>& functions,
                   FunctionName& out);

}  // namespace sluice::sim
