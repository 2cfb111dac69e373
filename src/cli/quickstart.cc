// `sluice quickstart`: the main job, end to end. Starts the platform, measures three models,
// deploys them with objectives, plays a bursty trace at a level that fits this machine, shows the
// live view and prints what came of it. Fails if anything failed.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "cli/functions_table.h"
#include "cli/load_report.h"
#include "cli/payload.h"
#include "cli/profile_run.h"
#include "cli/rate_file.h"
#include "cli/session.h"
#include "control/function_file.h"
#include "control/store.h"
#include "control/validate.h"

namespace sluice::cli {
namespace {

using nlohmann::json;
using wire::http::verb;

struct QuickstartFlags {
  double seconds = 120;
  std::string policy = "has-gpu", report, models, trace;
  bool keep = false;
  uint64_t seed = 1;
  double level = 0.25;              // mean load, of all devices
  std::vector<std::string> slices;  // fixed: NAME=PERMILLE
};

const std::vector<std::string> kModels{"resnet50", "mobilenet_v2", "bert_base"};

std::string free_address() {
  const Fd fd = std::move(*wire::listen_on({.host = "127.0.0.1", .port = 0}));
  sockaddr_in at{};
  socklen_t size = sizeof(at);
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&at), &size);
  return "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
}

// The platform, for as long as this lives.
class Platform {
 public:
  Platform(const std::string& data, const std::string& policy, const std::string& log) {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    const std::vector<std::string> words{self,       "--data",      data,       "up",
                                         "--policy", policy,        "--listen", free_address(),
                                         "--api",    free_address()};
    std::vector<char*> argv;
    for (const std::string& w : words) argv.push_back(const_cast<char*>(w.c_str()));
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      const int fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      ::dup2(fd, STDOUT_FILENO);
      ::dup2(fd, STDERR_FILENO);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
  }
  ~Platform() { stop(); }
  void stop() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  bool lives() const { return ::waitpid(pid_, nullptr, WNOHANG) == 0; }
  void leave() { pid_ = 0; }

 private:
  pid_t pid_ = 0;
};

Result<void> wait_for(const std::function<Result<bool>()>& done, Nanos patience,
                      const std::string& what) {
  const SteadyClock clock;
  const Time end = clock.now() + patience;
  while (clock.now() < end) {
    SLUICE_ASSIGN(is, done());
    if (is) return {};
    std::this_thread::sleep_for(Millis(100));
  }
  return Error{ErrorKind::kTimeout,
               what + ": not within " + std::to_string(patience.count() / 1'000'000'000) + " s"};
}

struct Plan {
  FunctionSpec spec;
  double rate = 0;  // requests per second, mean
};

// The objective: five times the model alone on a whole device, and 30 ms for the way.
Nanos objective(const predict::Profile& p) {
  Nanos alone = std::chrono::hours(1);
  for (const auto& point : p.points)
    if (point.at.batch == 1 && point.at.quota == kWhole && point.at.sm == kWhole)
      alone = point.latency_p50;
  const int64_t ms = (alone * 5 + Millis(30)).count() / 1'000'000;
  return Millis((ms + 9) / 10 * 10);
}

double whole_device_rate(const predict::Profile& p) {
  for (const auto& point : p.points)
    if (point.at.batch == 1 && point.at.quota == kWhole && point.at.sm == kWhole)
      return point.throughput;
  return 0;
}

Result<Plan> measured(const Session& session, const std::string& model, const QuickstartFlags& f,
                      size_t devices) {
  FunctionSpec spec;
  std::string name = model;
  std::ranges::replace(name, '_', '-');
  spec.name = {.name = name};
  spec.model.path = f.models + "/" + model + ".pt";
  SLUICE_TRY(control::check_model(spec));
  std::cout << "  " << name << " " << std::flush;
  const Sweep sweep{
      .batches = {1, 2, 4}, .quotas = {{1000}, {500}, {200}}, .per_point = Millis(400)};
  SLUICE_ASSIGN(profile, profile_model(session.run("node.sock"), spec, sweep,
                                       [](const auto&) { std::cout << "." << std::flush; }));
  json body = control::to_json(profile);
  body["model"] = spec.model.path;
  const auto put = session.api(verb::put, "/v1/profiles", body);
  if (!put.ok()) return put.error();
  spec.slo = {.latency = objective(profile), .percentile = 95};
  spec.batching = {.max_size = 4, .max_delay = Millis(2)};
  spec.timeout = Seconds(20);
  const double rate = f.level * static_cast<double>(devices) / static_cast<double>(kModels.size()) *
                      whole_device_rate(profile);
  std::cout << " " << fixed(whole_device_rate(profile), 1) << "/s on a whole device, "
            << bytes(profile.memory) << "; objective p95 <= " << millis(spec.slo.latency)
            << " ms, load " << fixed(rate, 1) << "/s\n";
  return Plan{spec, rate};
}

Result<void> deploy(const Session& session, std::vector<Plan>& plans, const QuickstartFlags& f) {
  std::string file;
  for (Plan& p : plans) {
    if (f.policy == "fixed") {
      int permille = 500;
      for (const std::string& s : f.slices)
        if (s.starts_with(p.spec.name.name + "="))
          permille = std::clamp(std::atoi(s.c_str() + p.spec.name.name.size() + 1), 10, 1000);
      p.spec.slice = Slice{.sm = kWhole, .quota = {{permille}, {permille}}};
    }
    file += "---\n" + control::to_yaml(p.spec);
  }
  SLUICE_ASSIGN(answer, session.api_raw(verb::post, "/v1/functions?file=quickstart", file,
                                        "application/yaml"));
  if (answer.result_int() != 200) return Error{ErrorKind::kInvalid, answer.body()};
  return wait_for(
      [&]() -> Result<bool> {
        SLUICE_ASSIGN(functions, session.api(verb::get, "/v1/functions"));
        return std::ranges::all_of(functions, [](const json& r) { return r["ready"].get<bool>(); });
      },
      Seconds(180), "functions to be ready");
}

std::vector<LoadTarget> targets_of(const std::vector<Plan>& plans, const RatePlan& trace,
                                   const QuickstartFlags& f) {
  std::vector<LoadTarget> targets;
  for (const Plan& p : plans) {
    json inputs = json::array();
    for (const TensorSpec& t : p.spec.model.inputs)
      inputs.push_back({{"name", t.name}, {"datatype", t.datatype}, {"shape", t.shape}});
    const auto payload = make_payload(inputs, 1, 3);
    // The same trace for each, a third of it later: their bursts do not coincide.
    RatePlan plan(
        trace.begin() + static_cast<ptrdiff_t>(trace.size() * targets.size() / plans.size()),
        trace.end());
    plan.insert(
        plan.end(), trace.begin(),
        trace.begin() + static_cast<ptrdiff_t>(trace.size() * targets.size() / plans.size()));
    for (RateStep& s : plan) s.rate *= p.rate;
    targets.push_back({.name = to_string(p.spec.name),
                       .path = "/v2/models/" + p.spec.name.name + "/infer",
                       .body = payload->body,
                       .content_type = "application/octet-stream",
                       .json_bytes = payload->json_bytes,
                       .plan = fit_to(plan, from_seconds(f.seconds)),
                       .seed = f.seed * 100 + targets.size(),
                       .slo = p.spec.slo.latency});
  }
  return targets;
}

// The load's own view of requests, the platform's of slices and cost.
json joined(const Session& session, const std::vector<LoadResult>& results,
            const std::vector<Plan>& plans, const QuickstartFlags& f) {
  json out{
      {"policy", f.policy}, {"seconds", f.seconds}, {"seed", f.seed}, {"functions", json::array()}};
  const auto report = session.api(verb::get, "/v1/report");
  const json rows = report_of(results);
  for (size_t i = 0; i < results.size(); ++i) {
    json row = rows[i];
    row["slo_ms"] = millis(plans[i].spec.slo.latency);
    if (report.ok())
      for (const json& r : (*report)["functions"])
        if (r["name"] == results[i].name) {
          for (const char* key : {"cold_starts", "resizes", "starts", "stops", "slice_seconds",
                                  "used_seconds", "cost"})
            row[key] = r[key];
          row["cost_per_1k"] = results[i].ok == 0 ? 0.0
                                                  : r["cost"].get<double>() * 1000 /
                                                        static_cast<double>(results[i].ok);
        }
    out["functions"].push_back(row);
  }
  return out;
}

void print_report(const json& report) {
  Table t({"NAME", "REQUESTS", "OK", "SHED", "FAILED", "P50", "P95", "P99", "SLO", "VIOL", "COLD",
           "RESIZES", "STARTS", "STOPS", "SLICE-S", "USED-S", "COST/1K"});
  for (const json& r : report["functions"]) {
    const auto n = [&](const char* key) { return std::to_string(r.value(key, uint64_t{0})); };
    t.add({r["name"], n("requests"), n("ok"), n("shed"), n("failed"), fixed(r["p50_ms"], 0) + "ms",
           fixed(r["p95_ms"], 0) + "ms", fixed(r["p99_ms"], 0) + "ms", fixed(r["slo_ms"], 0) + "ms",
           fixed(r["violations_pct"], 1) + "%", n("cold_starts"), n("resizes"), n("starts"),
           n("stops"), fixed(r.value("slice_seconds", 0.0), 1),
           fixed(r.value("used_seconds", 0.0), 1), fixed(r.value("cost_per_1k", 0.0), 5)});
  }
  std::cout << "\npolicy " << report["policy"].get<std::string>() << "\n" << t.text();
}

Result<void> quickstart(Session session, const QuickstartFlags& f) {
  const SteadyClock clock;
  const Time begin = clock.now();
  SLUICE_ASSIGN(trace_text, read_file(f.trace));
  const auto trace = parse_rates(trace_text);
  if (!trace.ok()) return within(f.trace, trace.error());
  std::error_code ignored;
  std::filesystem::remove_all(session.data, ignored);
  std::filesystem::create_directories(session.data, ignored);
  std::cout << "starting the platform (policy " << f.policy << ", data in " << session.data
            << ")\n";
  Platform platform(session.data, f.policy, session.data + "/up.log");
  size_t devices = 0;
  const auto started = wait_for(
      [&]() -> Result<bool> {
        if (!platform.lives())
          return Error{ErrorKind::kInternal, "the platform ended; see " + session.data + "/up.log"};
        const auto list = session.api(verb::get, "/v1/devices");
        if (list.ok()) devices = list->size();
        const auto status = session.api(verb::get, "/v1/status");
        return devices > 0 && status.ok() && (*status)["gateway"].get<bool>();
      },
      Seconds(60), "the platform");
  if (!started.ok()) return started;
  std::cout << devices << " CPU devices; measuring the models (batch x quota):\n";
  std::vector<Plan> plans;
  for (const std::string& model : kModels) {
    SLUICE_ASSIGN(plan, measured(session, model, f, devices));
    plans.push_back(std::move(plan));
  }
  std::cout << "deploying\n";
  SLUICE_TRY(deploy(session, plans, f));
  std::cout << "playing " << f.trace << " for " << fixed(f.seconds, 0) << " s\n\n";
  SLUICE_ASSIGN(server, session.gateway());
  int shown = -1;
  const auto results =
      run_load(targets_of(plans, *trace, f), {.server = server}, [&](Nanos since, const auto&) {
        if (seconds(since) < 0 || static_cast<int>(seconds(since)) / 10 == shown) return;
        shown = static_cast<int>(seconds(since)) / 10;
        const auto functions = session.api(verb::get, "/v1/functions");
        if (functions.ok())
          std::cout << fixed(seconds(since), 0) << " s\n"
                    << functions_table(*functions) << "\n"
                    << std::flush;
      });
  std::this_thread::sleep_for(Millis(1500));  // the loop's next turn counts the last answers
  const json report = joined(session, results, plans, f);
  print_report(report);
  if (!f.report.empty()) std::ofstream(f.report) << report.dump(2) << "\n";
  const auto decisions = session.api(verb::get, "/v1/decisions?limit=6");
  if (decisions.ok()) {
    std::cout << "\nthe last decisions:\n";
    for (const json& d : *decisions)
      std::cout << "  " << d["action"].get<std::string>() << " " << d["subject"].get<std::string>()
                << ": " << d["reason"]["text"].get<std::string>() << "\n";
  }
  if (f.keep) {
    platform.leave();
    std::cout << "\nthe platform goes on: sluice --data " << session.data
              << " top; end it with: sluice --data " << session.data << " down\n";
  } else {
    platform.stop();
  }
  std::cout << "done in " << fixed(seconds(clock.now() - begin), 0) << " s\n";
  std::string faults;
  for (const LoadResult& r : results)
    if (r.failed > 0 || r.ok == 0)
      faults += (faults.empty() ? "" : "; ") + r.name + ": " + std::to_string(r.failed) + " of " +
                std::to_string(r.sent) + " failed" +
                (r.faults.empty() ? "" : " (" + r.faults.front() + ")");
  if (!faults.empty()) return Error{ErrorKind::kInternal, faults};
  return {};
}

}  // namespace

void add_quickstart(CLI::App& app, Session& session, Outcome& outcome) {
  auto f = std::make_shared<QuickstartFlags>();
  f->models = home() + "/.cache/sluice/models";
  f->trace = "scenarios/bursty.txt";
  CLI::App* command = app.add_subcommand(
      "quickstart", "the main job: three models under a bursty load (what ./quickstart runs)");
  command->add_option("--seconds", f->seconds, "of load")
      ->check(CLI::Range(1.0, 86'400.0))
      ->capture_default_str();
  command->add_option("--policy", f->policy)
      ->check(CLI::IsMember({"has-gpu", "fixed", "exclusive"}))
      ->capture_default_str();
  command->add_option("--report", f->report, "write the report there, as JSON");
  command->add_flag("--keep", f->keep, "leave the platform running");
  command->add_option("--models", f->models, "folder of tools/make_models")->capture_default_str();
  command->add_option("--trace", f->trace, "rate file, relative rates")->capture_default_str();
  command->add_option("--seed", f->seed)->capture_default_str();
  command->add_option("--level", f->level, "mean load, as a part of all devices")
      ->check(CLI::Range(0.01, 2.0))
      ->capture_default_str();
  command->add_option("--fixed-slice", f->slices,
                      "policy fixed: NAME=PERMILLE of time for each function");
  command->callback([=, &app, &session, &outcome] {
    Session own = session;
    if (app.get_option("--data")->count() == 0) own.data = home() + "/.cache/sluice/quickstart";
    outcome = quickstart(own, *f);
  });
}

}  // namespace sluice::cli
