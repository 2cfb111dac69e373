// `sluice profile -f FILE`: measures the models of a function file on this machine.
#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <iostream>
#include <set>

#include "cli/files.h"
#include "cli/limits.h"
#include "cli/profile_cluster.h"
#include "cli/profile_points.h"
#include "cli/profile_room.h"
#include "cli/profile_run.h"
#include "cli/profile_table.h"
#include "cli/session.h"
#include "cli/table.h"
#include "control/local/model_check.h"
#include "control/profiles.h"
#include "control/spec/function_file.h"
#include "model/server_kind.h"
#include "profile/trials_model.h"
#include "wire/json/json.h"

namespace sluice::cli {
namespace {

std::atomic<bool> profile_interrupted = false;

struct ProfileFlags {
  std::vector<std::string> files;
  std::vector<std::string> names;  // on a cluster
  bool prints_alone = false;
  std::vector<int> batches{1, 2, 4, 8}, quotas, sms;  // none: those of quick or full
  std::string points;                                 // by name
  double seconds = 0;                                 // 0: that of quick or full
  bool full = false;
  std::string plan;  // of the search; empty: all points
  int most_trials = 1000;
  double budget = 0;      // seconds
  TableSearch table;      // of no file: measure
  double in_time_ms = 0;  // of a batch; 0: half of the objective
  std::string path = "/", body;
};

constexpr double kQuickBudget = 40;  // seconds

std::vector<Share> shares(const std::vector<int>& percents) {
  std::vector<Share> all;
  for (const int p : percents) all.push_back({p * 10});
  return all;
}

// Quick is the default: three quotas, and 40 s in all, without starts of the instance.
Sweep sweep_of(const ProfileFlags& f) {
  Sweep sweep{.batches = f.batches, .sms = shares(f.sms), .needs_sms = true};
  const NamedPoints* named = named_points(f.points);
  if (!f.full) {
    sweep.quotas = {{1000}, {400}, {100}};
    sweep.gpu_sms = {{1000}, {500}};
    sweep.per_point = Millis(400);
    if (f.quotas.empty() && f.sms.empty() && named == nullptr && f.seconds == 0)
      sweep.budget = from_seconds(kQuickBudget);
  }
  if (f.seconds > 0) sweep.per_point = from_seconds(f.seconds);
  if (!f.quotas.empty()) sweep.quotas = shares(f.quotas);
  if (named != nullptr) {
    sweep.quotas = named->quotas;
    sweep.sms = named->sms;
    sweep.needs_sms = false;
  }
  if (f.budget > 0) sweep.budget = from_seconds(f.budget);
  sweep.plan = profile::search_plan(f.plan);
  if (sweep.plan != nullptr && f.budget == 0) sweep.budget = Nanos(0);
  sweep.most_trials = f.most_trials;
  return sweep;
}

std::vector<std::string> cells(const MeasuredPoint& p) {
  const auto measured = [](Share s) { return s > kNone ? percent(s.permille) : "-"; };
  return {std::to_string(p.at.batch),     percent(p.at.sm.permille),
          percent(p.at.quota.permille),   fixed(millis(p.median), 1) + "ms",
          fixed(millis(p.p95), 1) + "ms", fixed(p.throughput, 1),
          measured(p.utilisation),        measured(p.occupancy)};
}

// "3/12  batch 4, sm 100%, quota 100%: 81.2ms, 49.3/s; about 20 s left".
std::string progress_line(const ProfileProgress& p) {
  const MeasuredPoint& point = p.point;
  return std::to_string(p.done) + "/" + std::to_string(p.total) + "  batch " +
         std::to_string(point.at.batch) + ", sm " + percent(point.at.sm.permille) + ", quota " +
         percent(point.at.quota.permille) + ": " + fixed(millis(point.median), 1) + "ms, " +
         fixed(point.throughput, 1) + "/s; about " + fixed(seconds(p.left), 0) + " s left\n";
}

// Prints which requested measurements are missing, a line each.
void say_what_is_missing(const control::Profile& measured, int total) {
  const int done = static_cast<int>(measured.points.size());
  if (!profile_interrupted && done < total)
    std::cout << total - done << " of " << total
              << " points would have taken too long and are extrapolated; --full measures all\n";
  Share largest = kNone;
  for (const auto& p : measured.points) largest = std::max(largest, p.at.quota);
  if (largest < kWhole)
    std::cout << "The largest quota measured is " << percent(largest.permille)
              << "; larger ones are not known.\n";
}

std::string what_it_runs(const FunctionSpec& spec) {
  const ModelSpec& model = spec.model();
  return model.format == kProgram ? model.program.command.at(0) : model.path;
}

void print_measured(const FunctionSpec& spec, const control::Profile& measured, int total) {
  Table table({"BATCH", "SM", "QUOTA", "P50", "P95", "PER-S", "UTIL", "SM-OCC"});
  for (const auto& point : measured.points) table.add(cells(point));
  std::cout << to_string(spec.name) << ": " << what_it_runs(spec) << " on " << measured.device.name
            << ", " << bytes(measured.memory) << "\n"
            << table.text();
  say_what_is_missing(measured, total);
}

// Measures and stores, also what was measured before Ctrl-C. Adds the profiles to `stored`.
Result<void> profile_in(const ProfileRoom& room, const Session& session, const FunctionSpec& spec,
                        const Sweep& sweep, bool prints_alone, nlohmann::json& stored) {
  int total = 0;
  const bool shows = !session.json() || prints_alone;
  SLUICE_ASSIGN(measured, profile_model(
                              session.run("node.sock"), room, spec, sweep,
                              [&](const ProfileProgress& p) {
                                if (total == 0 && p.kept > 0 && shows)
                                  std::cerr << "goes on with " << p.kept
                                            << " points measured before it was cut off\n";
                                total = p.total;
                                if (shows) std::cerr << progress_line(p) << std::flush;
                              },
                              &profile_interrupted, session.data));
  if (measured.points.empty())
    return Error{ErrorKind::kInternal, "interrupted before the first point; nothing is kept"};
  control::Profile whole = measured;
  if (sweep.plan != nullptr) whole.points = profile::filled(measured.points);
  nlohmann::json body = control::to_json(whole);
  if (!prints_alone) {
    const auto put = session.api(wire::http::verb::put, "/v1/profiles", body);
    if (!put.ok()) return put.error();
  }
  stored.push_back(std::move(body));
  if (!session.json() && !prints_alone) print_measured(spec, measured, total);
  if (profile_interrupted)
    return Error{ErrorKind::kInternal, "interrupted; " + std::to_string(measured.points.size()) +
                                           " of " + std::to_string(total) + " points are kept"};
  return {};
}

Result<void> say_what_is_full(const nlohmann::json& state, const FunctionSpec& spec,
                              const std::vector<ProfileRoom>& rooms) {
  std::set<DeviceType> full;
  for (const nlohmann::json& d : state["devices"]) {
    SLUICE_ASSIGN(device, wire::device_from(d));
    if (spec.may_use(device)) full.insert(type_of(device));
  }
  for (const ProfileRoom& room : rooms) full.erase(type_of(room.device));
  for (const DeviceType& type : full)
    std::cerr << "sluice: " << to_string(spec.name) << ": not measured on " << type.name
              << ": none has a fifth of its time left\n";
  return {};
}

// On each type of device that it may run on.
Result<void> profile_one(const Session& session, const FunctionSpec& spec, const Sweep& sweep,
                         bool prints_alone, nlohmann::json& stored) {
  SLUICE_ASSIGN(state, session.node().json(wire::http::verb::get, "/v1/state"));
  SLUICE_ASSIGN(rooms, rooms_to_measure(state, spec));
  SLUICE_TRY(say_what_is_full(state, spec, rooms));
  for (const ProfileRoom& room : rooms) {
    const FunctionSpec there = spec.on(type_of(room.device));
    Sweep its = sweep;
    if (const int most = there.model().max_batch; most > 0)
      std::erase_if(its.batches, [&](int batch) { return batch > most; });
    if (its.batches.empty()) its.batches = {1};
    SLUICE_TRY(profile_in(room, session, there, its, prints_alone, stored));
  }
  return {};
}

Result<void> profile(const Session& session, const ProfileFlags& f) {
  std::vector<FunctionSpec> specs;
  SLUICE_ASSIGN(files, read_files(f.files));
  for (const FunctionFile& file : files) {
    SLUICE_ASSIGN(parsed, control::parse_functions(file.text,
                                                   {.file = file.name,
                                                    .folder = file.folder,
                                                    .home = home(),
                                                    .models = control::folder_of_models(home())},
                                                   control::check_model));
    specs.insert(specs.end(), parsed.begin(), parsed.end());
  }
  const auto runs = session.node().json(wire::http::verb::get, "/v1/state");
  if (!runs.ok()) return runs.error();
  std::signal(SIGINT, [](int) { profile_interrupted = true; });
  nlohmann::json stored = nlohmann::json::array();
  Result<void> outcome;
  for (auto spec = specs.begin(); spec != specs.end() && outcome.ok(); ++spec) {
    Sweep sweep = sweep_of(f);
    if (spec->model().format == kProgram) sweep.batches = {1};
    sweep.path = f.path;
    if (!f.body.empty()) {
      SLUICE_ASSIGN(text, read_file(f.body));
      sweep.body = text;
    }
    // A request waits for a batch and then takes part in one, so each may take half (Dilu).
    if (const Nanos slo = spec->inference().slo.latency; slo > Nanos(0)) sweep.in_time = slo / 2;
    if (f.in_time_ms > 0) sweep.in_time = from_seconds(f.in_time_ms / 1000);
    outcome = profile_one(session, *spec, sweep, f.prints_alone, stored);
  }
  const bool as_json = session.json() || f.prints_alone;
  if (as_json && (outcome.ok() || !stored.empty())) print(stored);
  return outcome;
}

// What nodes of a cluster are asked. A budget, because each has other quotas left.
Result<void> profile_there(const Session& session, const ProfileFlags& f) {
  if (!f.points.empty() || !f.plan.empty() || !f.sms.empty() || !f.body.empty())
    return Error{ErrorKind::kInvalid, "--points, --plan, --sms, --body: not on a cluster"};
  ClusterProfile wanted{.names = f.names, .files = f.files, .quotas = f.quotas, .words = {}};
  if (wanted.quotas.empty())
    wanted.quotas = f.full ? std::vector{100, 70, 40, 20, 10} : std::vector{100, 40, 10};
  std::ranges::sort(wanted.quotas, std::ranges::greater());
  std::string batches;
  for (const int b : f.batches) batches += (batches.empty() ? "" : ",") + std::to_string(b);
  wanted.words = {"--batches", batches, "--path", f.path};
  if (f.full) wanted.words.emplace_back("--full");
  if (!f.full || f.budget > 0)
    wanted.words.insert(wanted.words.end(),
                        {"--budget", fixed(f.budget > 0 ? f.budget : kQuickBudget, 1)});
  if (f.seconds > 0) wanted.words.insert(wanted.words.end(), {"--seconds", fixed(f.seconds, 3)});
  return profile_on_cluster(session, wanted);
}

void add_points(CLI::App& command, ProfileFlags& f) {
  std::vector<std::string> names;
  std::string meanings = "quotas and SMs by name, as far as the device can be divided:";
  for (const NamedPoints& points : named_points()) {
    names.emplace_back(points.name);
    meanings += "\n" + names.back() + ": " + std::string(points.meaning);
  }
  command.add_option("--points", f.points, meanings)
      ->check(CLI::IsMember(names))
      ->excludes("--quotas", "--sms");
}

void add_search(CLI::App& command, CLI::Option& files, ProfileFlags& f) {
  std::vector<std::string> plans;
  std::string meanings =
      "search for the configuration with the most inferences per share of a "
      "device, of those in time, in place of all points:";
  for (const auto& plan : profile::search_plans()) {
    plans.emplace_back(plan->name());
    meanings += "\n" + plans.back() + ": " + std::string(plan->meaning());
  }
  command.add_option("--plan", f.plan, meanings)->check(CLI::IsMember(plans));
  command.add_option("--max-trials", f.most_trials, "of a plan")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command.add_option("--budget", f.budget, "seconds of trials; starts do not count")
      ->check(number_from(0.1, 86'400.0));
  command
      .add_option("--in-time", f.in_time_ms,
                  "milliseconds that a batch may take, for a plan; default: half of the "
                  "objective, with --table four times the shortest")
      ->check(number_from(0.001, 1e7));
  command
      .add_option("--table", f.table.table,
                  "run the plans over times measured before, and compare their "
                  "choices with the best")
      ->excludes(&files);
  command.add_option("--model", f.table.model, "of the table's; default: each");
  command.add_flag("--trials", f.table.trials, "list the trials made in a table");
}

}  // namespace

void add_profile(CLI::App& app, Session& session, Outcome& outcome) {
  auto f = std::make_shared<ProfileFlags>();
  CLI::App* command = app.add_subcommand(
      "profile",
      "measure models on this machine: batch × cores or SMs × quota. Takes less than a minute\n"
      "a model; --full takes longer and measures more. Ctrl-C keeps what was measured.\n"
      "UTIL: the time in which the slice's cores or SMs worked. SM-OCC: the whole GPU's\n"
      "active warps, of those that fit");
  auto* files =
      command->add_option("-f,--filename", f->files, "function files, or folders of them");
  command->add_option("names", f->names, "on a cluster: functions that were applied");
  command->add_flag("--print", f->prints_alone, "print the profiles as JSON, and store none");
  command->add_flag("--full", f->full,
                    "quotas 100,70,40,20,10, a second at each point; SMs 100,50,25 under MPS");
  command->add_option("--batches", f->batches, "batch sizes")
      ->delimiter(',')
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command
      ->add_option("--quotas", f->quotas,
                   "shares of time, per cent; default: 100,40,10, with --full 100,70,40,20,10")
      ->delimiter(',')
      ->check(CLI::Range(1, 100));
  command
      ->add_option("--sms", f->sms,
                   "shares of a device's cores or SMs, per cent, rounded up to what it can divide; "
                   "default: each of a CPU device; of a GPU under MPS 100,50, a start for each")
      ->delimiter(',')
      ->check(CLI::Range(1, 100));
  add_points(*command, *f);
  command
      ->add_option("--seconds", f->seconds, "least time at each point; default: 0.4, with --full 1")
      ->check(number_from(0.05, 600.0));
  command->add_option("--path", f->path, "what a program with protocol http is asked")
      ->check(begins_with_slash)
      ->capture_default_str();
  command->add_option(
      "--body", f->body,
      "file with its body; without one, it is asked by GET, or sent inputs made up as it "
      "describes them (protocol oip)");
  add_search(*command, *files, *f);
  command->callback([=, &session, &outcome] {
    f->table.plan = f->plan;
    f->table.most_trials = f->most_trials;
    if (f->in_time_ms > 0) f->table.in_time = from_seconds(f->in_time_ms / 1000);
    if (session.on_cluster && f->table.table.empty() && !(f->files.empty() && f->names.empty()))
      outcome = profile_there(session, *f);
    else if (f->table.table.empty() && f->files.empty())
      outcome = Error{ErrorKind::kInvalid, "-f FILE or --table FILE is wanted"};
    else
      outcome =
          f->table.table.empty() ? profile(session, *f) : search_in_table(f->table, session.json());
  });
}

}  // namespace sluice::cli
