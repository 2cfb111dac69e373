// `sluice simulate SCENARIO.yaml`: plays a scenario under one or several policies in virtual time,
// and compares what they did. No platform is needed.
#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "base/clock.h"
#include "base/log.h"
#include "cli/recorded_store.h"
#include "cli/session.h"
#include "cli/table.h"
#include "policy/bundle.h"
#include "sim/report.h"
#include "sim/run.h"
#include "sim/scenario_file.h"
#include "sim/sharing.h"
#include "sim/timeline_plot.h"

namespace sluice::cli {
namespace {

struct SimulateFlags {
  bool from_store = false;
  std::string scenario, json, timeline, plots, stepping;
  std::vector<std::string> policies, plans;
  std::optional<uint64_t> seed;
};

constexpr size_t kLongestScenario = size_t{1} << 20;

std::atomic<bool> simulation_stopped = false;

// With from_store, what the platform has recorded; of its devices, too, if there is no scenario.
Result<sim::Scenario> parse_scenario(const Session& session, const SimulateFlags& f) {
  std::unique_ptr<RecordedStore> store;
  if (f.from_store) {
    SLUICE_ASSIGN(fetched, RecordedStore::fetch(session));
    store = std::move(fetched);
  }
  const std::string path = store ? store->path() : "";
  if (!f.scenario.empty()) {
    SLUICE_ASSIGN(text, read_file(f.scenario, kLongestScenario));
    const auto folder = std::filesystem::path(f.scenario).parent_path();
    return sim::parse_scenario(text, f.scenario, folder, path);
  }
  if (!store) return Error{ErrorKind::kInvalid, "a scenario, or --from-store, is wanted"};
  SLUICE_ASSIGN(text, store->scenario(session));
  return sim::parse_scenario(text, "--from-store", "", path);
}

Result<sim::Scenario> read_scenario(const Session& session, const SimulateFlags& f) {
  SLUICE_ASSIGN(scenario, parse_scenario(session, f));
  if (f.seed) scenario.seed = *f.seed;
  if (!f.stepping.empty()) scenario.cluster.stepping = *sim::find_stepping(f.stepping);
  if (!f.policies.empty()) scenario.policies = f.policies;
  if (scenario.policies.empty()) scenario.policies = {"has-gpu"};
  if (!f.plans.empty()) scenario.plans = f.plans;
  for (const std::string& policy : scenario.policies)
    if (policy::find_bundle(policy) == nullptr)
      return Error{ErrorKind::kInvalid,
                   "--policies: '" + policy + "' is not known; `sluice policies` lists them"};
  return scenario;
}

// What is played: each policy, with each plan if there are any.
struct Choice {
  std::string policy, plan;

  std::string name() const { return sim::played_as(policy, plan); }
};

std::vector<Choice> choices_of(const sim::Scenario& s) {
  std::vector<Choice> all;
  for (const std::string& policy : s.policies) {
    if (s.plans.empty()) all.push_back({policy, ""});
    for (const std::string& plan : s.plans) all.push_back({policy, plan});
  }
  return all;
}

// Says so where fluids are no measure of a policy's arbiter.
void warn_of_fluids(const sim::Scenario& s) {
  if (s.cluster.stepping != sim::Stepping::kFluid) return;
  for (const std::string& policy : s.policies) {
    const std::string_view arbiter = policy::find_bundle(policy)->arbiter;
    const sim::SharingRule* rule = sim::find_sharing(arbiter);
    if (rule == nullptr || !rule->bounded)
      std::cerr << "sluice: " << policy << ": fluid devices do not have the states of its arbiter, "
                << arbiter << ": where devices are crowded, its results are too good. "
                << "--stepping exact has them\n";
  }
}

std::string ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? "-" : fixed(100 * static_cast<double>(part) / static_cast<double>(whole), 2);
}

void print_functions(const sim::Scenario& s, const std::vector<sim::Outcome>& outcomes) {
  std::vector<std::string> head{"POLICY", "FUNCTION", "REQUESTS"};
  for (const double m : s.slo_multiples)
    head.push_back("VIOLATE%" + (m == 1 ? "" : "@" + fixed(m, 1)));
  for (const char* name :
       {"P50-MS", "P95-MS", "P99-MS", "COLD", "STARTS", "STOPS", "RESIZES", "SLICE-S", "COST/1000"})
    head.emplace_back(name);
  Table table(head);
  for (const sim::Outcome& o : outcomes)
    for (const sim::FunctionOutcome& f : o.functions) {
      std::vector<std::string> row{o.policy, served_name(f.function), std::to_string(f.requests)};
      for (const uint64_t violations : f.violations)
        row.push_back(ratio(violations, f.requests - f.open));
      for (const Nanos latency : {f.p50, f.p95, f.p99}) row.push_back(fixed(millis(latency), 1));
      for (const uint64_t count :
           {f.cold_starts, f.account.starts, f.account.stops, f.account.resizes})
        row.push_back(std::to_string(count));
      row.push_back(fixed(f.account.slice_seconds, 1));
      row.push_back(fixed(f.account.per_thousand(f.ok), 4));
      table.add(row);
    }
  std::cout << table.text();
}

// Of a long list only the figures over all jobs are shown; --json has every job.
constexpr size_t kShownJobs = 20;

void print_jobs(const std::vector<sim::Outcome>& outcomes) {
  Table table({"POLICY", "JOB", "ARRIVED-S", "QUEUED-S", "JCT-S", "GOODPUT", "WORKERS", "MOST",
               "REFORMS", "STARTS", "SLICE-S"});
  for (const sim::Outcome& o : outcomes)
    for (const sim::JobOutcome& j : o.jobs)
      table.add({o.policy, served_name(j.job), fixed(seconds(j.arrived), 1),
                 fixed(seconds(j.began.value_or(o.lasted) - j.arrived), 1),
                 j.finished ? fixed(seconds(j.completion_time()), 1) : "-",
                 fixed(sim::goodput_of(j, o.lasted), 1), fixed(j.workers_mean, 2),
                 std::to_string(j.workers_max), std::to_string(j.reforms),
                 std::to_string(j.account.starts), fixed(j.account.slice_seconds, 1)});
  std::cout << "\n" << table.text();
}

void print_all_jobs(const std::vector<sim::Outcome>& outcomes) {
  Table table({"POLICY", "JOBS", "FINISHED", "JCT-MEAN-S", "JCT-P95-S", "QUEUED-MEAN-S",
               "MAKESPAN-S", "GOODPUT", "WORKERS", "REFORMS", "UTILISED%"});
  for (const sim::Outcome& o : outcomes) {
    const sim::JobsOutcome& all = o.all_jobs;
    const bool any = all.finished > 0;
    table.add({o.policy, std::to_string(all.arrived), std::to_string(all.finished),
               any ? fixed(seconds(all.completion_mean), 1) : "-",
               any ? fixed(seconds(all.completion_p95), 1) : "-",
               fixed(seconds(all.queueing_mean), 1), fixed(seconds(all.makespan), 1),
               fixed(all.goodput, 1), fixed(all.workers_mean, 2), std::to_string(all.reforms),
               fixed(100 * o.utilisation, 1)});
  }
  std::cout << "\n" << table.text();
}

void print_clusters(const std::vector<sim::Outcome>& outcomes) {
  Table table({"POLICY", "DEVICE-S", "DEVICES", "MOST", "FREE%", "FREE-MEMORY%", "DECISIONS"});
  for (const sim::Outcome& o : outcomes) {
    const double lasted = seconds(o.simulated);
    table.add({o.policy, fixed(o.device_seconds, 1),
               fixed(lasted > 0 ? o.device_seconds / lasted : 0, 2), std::to_string(o.devices_max),
               fixed(100 * o.free_share, 1), fixed(100 * o.free_memory, 1),
               std::to_string(o.decisions)});
  }
  std::cout << "\n" << table.text() << std::flush;
}

void write_row(std::ostream& out, const std::string& policy, const sim::TimelineRow& r) {
  out << policy << ',' << r.second << ',' << to_string(r.function) << ',' << r.arrivals << ','
      << r.ok << ',' << r.late << ',' << r.refused << ',' << fixed(millis(r.p95), 3) << ','
      << r.instances << ',' << r.ready << ',' << fixed(static_cast<double>(r.area) / 1e6, 6) << ','
      << r.devices << '\n';
}

// How long the policies thought, by the real clock.
class Thinking {
 public:
  void ended(std::string_view phase) {
    const Time now = clock_.now();
    if (phase == "decide") {
      spent_ += now - last_;
      most_ = std::max(most_, now - last_);
      ++times_;
    }
    last_ = now;
  }
  std::string text() const {
    return std::to_string(times_) + " decisions, mean " +
           fixed(times_ == 0 ? 0 : millis(spent_) / times_, 3) + " ms, longest " +
           fixed(millis(most_), 3) + " ms";
  }

 private:
  SteadyClock clock_;
  Time last_{};
  Nanos spent_{0}, most_{0};
  int times_ = 0;
};

// The part that is done, and the time left, on the terminal.
class Progress {
 public:
  explicit Progress(const std::string& policy) : policy_(policy) {}
  void passed(double done) {
    const Time now = clock_.now();
    if (now - shown_ < Millis(500)) return;
    shown_ = now;
    std::cerr << "\r" << policy_ << " " << fixed(100 * done, 0) << " %, "
              << fixed(seconds(now - began_) * (1 - done) / std::max(done, 1e-6), 0) << " s left   "
              << std::flush;
    any_ = true;
  }
  ~Progress() {
    if (any_) std::cerr << "\n";
  }

 private:
  const std::string policy_;
  SteadyClock clock_;
  Time began_ = clock_.now(), shown_ = began_;
  bool any_ = false;
};

Result<void> save(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text << std::flush;
  if (!out) return Error{ErrorKind::kInternal, path + ": cannot be written"};
  return {};
}

std::string picture_of(const std::string& folder, const Choice& choice, const std::string& what) {
  const std::string plan = choice.plan.empty() ? "" : "-" + choice.plan;
  return folder + "/" + choice.policy + plan + what + ".svg";
}

Result<void> simulate(const Session& session, const SimulateFlags& f) {
  SLUICE_ASSIGN(scenario, read_scenario(session, f));
  std::error_code unknown;
  if (!f.plots.empty() && !std::filesystem::is_directory(f.plots, unknown))
    return Error{ErrorKind::kNotFound, "--plot: " + f.plots + ": there is no such folder"};
  spdlog::set_level(spdlog::level::err);  // the loop's log has the wall clock's times
  std::signal(SIGINT, [](int) { simulation_stopped = true; });
  std::ostringstream timeline;
  timeline << "policy,second,function,arrivals,ok,late,refused,p95_ms,instances,ready,held,"
              "devices\n";
  warn_of_fluids(scenario);
  std::vector<sim::Outcome> outcomes;
  std::string thoughts;
  for (const Choice& choice : choices_of(scenario)) {
    const std::string name = choice.name();
    Progress progress(name);
    sim::Watch watch;
    watch.on_second = [&](double done) {
      if (session.output == "table") progress.passed(done);
      return !simulation_stopped;
    };
    sim::TimelinePlot plot;
    if (!f.timeline.empty() || !f.plots.empty())
      watch.on_row = [&](const sim::TimelineRow& r) {
        if (!f.timeline.empty()) write_row(timeline, name, r);
        if (!f.plots.empty()) plot.add(r);
      };
    sim::Gantt gantt;
    if (!f.plots.empty() && !scenario.jobs.empty())
      watch.on_occupants = [&](Nanos passed, const auto& now, const auto& lent) {
        gantt.add(passed, now, lent);
      };
    Thinking thinking;
    watch.on_phase = [&](std::string_view phase) { thinking.ended(phase); };
    SLUICE_ASSIGN(outcome, sim::simulate(scenario, choice.policy, watch, choice.plan));
    outcomes.push_back(std::move(outcome));
    if (!f.plots.empty()) SLUICE_TRY(save(picture_of(f.plots, choice, ""), plot.svg()));
    if (watch.on_occupants) SLUICE_TRY(save(picture_of(f.plots, choice, "-jobs"), gantt.svg()));
    thoughts += name + ": " + thinking.text() + "\n";
    if (simulation_stopped) break;
  }
  const std::string report = sim::to_json(scenario, outcomes).dump(2) + "\n";
  if (!f.json.empty()) SLUICE_TRY(save(f.json, report));
  if (!f.timeline.empty()) SLUICE_TRY(save(f.timeline, timeline.str()));
  if (session.json()) return std::cout << report, Result<void>();
  if (!scenario.functions.empty()) print_functions(scenario, outcomes);
  if (!scenario.jobs.empty() && scenario.jobs.size() <= kShownJobs) print_jobs(outcomes);
  if (!scenario.jobs.empty()) print_all_jobs(outcomes);
  print_clusters(outcomes);
  std::cerr << thoughts;
  if (simulation_stopped) std::cerr << "sluice: stopped before the end; this is what was done\n";
  return {};
}

}  // namespace

void add_simulate(CLI::App& app, Session& session, Outcome& outcome) {
  auto f = std::make_shared<SimulateFlags>();
  CLI::App* command = app.add_subcommand(
      "simulate", "play a scenario in virtual time, under one or several policies");
  command->add_option("scenario", f->scenario, "a scenario file (docs/simulator.md)");
  command->add_flag("--from-store", f->from_store,
                    "what the platform has recorded: its functions, profiles and arrivals; without "
                    "a scenario, on its own devices");
  command->add_option("--policies", f->policies, "in place of the scenario's: a,b,c")
      ->delimiter(',');
  command
      ->add_option("--plans", f->plans,
                   "of training jobs, in place of the scenario's: each policy is played with each")
      ->delimiter(',')
      ->check(CLI::IsMember(policy::plan_names()));
  command->add_option("--seed", f->seed, "in place of the scenario's");
  command
      ->add_option("--stepping", f->stepping,
                   "in place of the scenario's: exact, or fluid for large clusters")
      ->check(CLI::IsMember({"exact", "fluid"}));
  command->add_option("--json", f->json, "writes the results to this file");
  command->add_option("--timeline", f->timeline,
                      "writes what every second held and answered to this file, as CSV");
  command->add_option(
      "--plot", f->plots,
      "draws each run's timeline in this folder, as SVG; of jobs also which devices they have");
  command->callback([f, &session, &outcome] { outcome = simulate(session, *f); });
}

}  // namespace sluice::cli
