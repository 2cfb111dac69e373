// JobReader: reads the training jobs of one scenario's document. scenario_jobs.cc has models and
// single jobs, scenario_job_lists.cc lists of jobs. Used by one parse, on one thread.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "sim/scenario.h"
#include "sim/scenario_fields.h"
#include "trace/job_list.h"

namespace sluice::sim {

constexpr int kMostEpochs = 1'000'000;
constexpr size_t kMostJobs = 10'000;

// What a list says of all its jobs.
struct ListRules {
  std::string path;
  trace::JobListOptions options;
  std::vector<const JobModel*> models;  // of jobs whose model the list does not name
  int length = 0;                       // of jobs whose length the list does not say; 0: none
  int least_devices = 1, most_devices = 0;
  double speed = 1, scale = 1;  // arrivals are so much closer, lengths are multiplied
  std::string policy, plan;
  std::map<std::string, std::string> settings;  // of the plan
};

class JobReader {
 public:
  JobReader(const ScenarioPart& spec, const std::filesystem::path& folder, Scenario& out)
      : spec_(spec), folder_(folder), out_(out), random_(out.seed) {
    for (const FunctionSpec& f : out.functions) names_.insert(f.name.name);
  }

  void read();

 private:
  ScenarioPart part(control::Fields& f) const { return {f, spec_.source, spec_.problems}; }
  int devices() const { return static_cast<int>(out_.cluster.devices.size()); }

  void physics(control::Fields& f);
  void model(control::Fields& f, JobModel& m);
  void step(control::Fields& f, StepModel& s);
  void noise(control::Fields& f, JobModel& m);
  void job(control::Fields& f);
  void devices_of(control::Fields& f, int& least, int& most) const;
  void policy(control::Fields& f, std::string& out) const;
  void plan(control::Fields& f, std::string& out,
            std::map<std::string, std::string>& settings) const;
  void list(control::Fields& f);
  void list_columns(control::Fields& f, ListRules& rules);
  void list_models(control::Fields& f, ListRules& rules);
  bool listed_job(control::Fields& f, const ListRules& rules, const trace::ListedJob& row);
  double samples_within(const JobModel& m, const trace::ListedJob& row) const;
  const JobModel* find_model(const std::string& name) const;
  std::vector<std::string> model_names() const;
  bool add(control::Fields& f, const std::string& key, ScenarioJob job);

  const ScenarioPart& spec_;
  const std::filesystem::path& folder_;
  Scenario& out_;
  Random random_;
  std::vector<JobModel> models_;  // not changed once jobs are read
  std::set<std::string> names_;   // of functions and jobs
};

}  // namespace sluice::sim
