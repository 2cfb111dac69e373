// `sluice quickstart`: the main job, end to end. Starts the platform, measures three models,
// deploys them with objectives, plays a bursty trace at a level that fits this machine, shows the
// live view and prints the results. Fails if anything failed.
#include "cli/quickstart.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iostream>

#include "cli/limits.h"
#include "cli/table.h"
#include "policy/bundle.h"

namespace sluice::cli {
namespace {

using nlohmann::json;

// Of a device's time; above a whole one it spans several instances.
constexpr int kLeastSlice = 10, kMostSlice = 64'000;

std::string in_ms(const json& value) {
  return fixed(value, 0) + "ms";
}

void print_report(const json& report) {
  Table t({"NAME", "REQUESTS", "OK", "SHED", "FAILED", "P50", "P95", "P99", "SLO", "VIOL", "COLD",
           "RESIZES", "STARTS", "STOPS", "SLICE-S", "USED-S", "COST/1K"});
  for (const json& r : report["functions"]) {
    const auto n = [&](const char* key) { return std::to_string(r.value(key, uint64_t{0})); };
    t.add({r["name"], n("requests"), n("ok"), n("shed"), n("failed"), in_ms(r["p50_ms"]),
           in_ms(r["p95_ms"]), in_ms(r["p99_ms"]), in_ms(r["slo_ms"]),
           fixed(r["violations_pct"], 1) + "%", n("cold_starts"), n("resizes"), n("starts"),
           n("stops"), fixed(r.value("slice_seconds", 0.0), 1),
           fixed(r.value("used_seconds", 0.0), 1), fixed(r.value("cost_per_1k", 0.0), 5)});
  }
  std::cout << "\npolicy " << report["policy"].get<std::string>() << "\n" << t.text();
}

// Over all functions together.
struct Totals {
  double sent = 0, ok = 0, bad = 0, slice = 0, used = 0, cost = 0;
};

Totals totals_of(const json& report) {
  Totals t;
  for (const json& r : report["functions"]) {
    t.sent += r["requests"].get<double>();
    t.ok += r["ok"].get<double>();
    t.bad += r["late"].get<double>() + r["shed"].get<double>() + r["failed"].get<double>();
    t.slice += r.value("slice_seconds", 0.0);
    t.used += r.value("used_seconds", 0.0);
    t.cost += r.value("cost", 0.0);
  }
  return t;
}

void print_comparison(const std::vector<json>& reports) {
  std::vector<std::string> head{"POLICY", "VIOL"};
  for (const json& r : reports.front()["functions"])
    head.push_back(function_name(r["name"].get<std::string>()).name + " VIOL, P95");
  head.insert(head.end(), {"SLICE-S", "USED-S", "COST/1K", "OF EXCLUSIVE"});
  const Totals exclusive = totals_of(reports.back());
  Table table(head);
  for (const json& report : reports) {
    const Totals t = totals_of(report);
    std::vector<std::string> row{report["policy"], fixed(100 * t.bad / t.sent, 2) + "%"};
    for (const json& r : report["functions"])
      row.push_back(fixed(r["violations_pct"], 1) + "%, " + in_ms(r["p95_ms"]));
    row.insert(row.end(),
               {fixed(t.slice, 0), fixed(t.used, 0), fixed(1000 * t.cost / t.ok, 5),
                fixed(100 * (t.cost / t.ok) / (exclusive.cost / exclusive.ok), 0) + "%"});
    table.add(row);
  }
  std::cout << "\nthe same load under each policy; fixed has has-gpu's mean cost as its slice\n"
            << table.text();
}

// Returns the fixed slices that cost as much as the changing ones did.
std::map<std::string, int> slices_of_equal_cost(const json& report) {
  std::map<std::string, int> slices;
  const double device =
      report["price_per_hour"].get<double>() / 3600 * report["seconds"].get<double>();
  for (const json& r : report["functions"]) {
    const long permille = std::lround(1000 * r["cost"].get<double>() / device);
    slices[function_name(r["name"].get<std::string>()).name] =
        std::max(kLeastSlice, static_cast<int>(permille));
  }
  return slices;
}

// Reads NAME=PERMILLE of one of the played functions.
Result<std::map<std::string, int>> parse_slices(const std::vector<std::string>& texts) {
  std::map<std::string, int> slices;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    if (std::ranges::find(kQuickstartModels, name, function_of) == std::end(kQuickstartModels))
      return Error{ErrorKind::kInvalid,
                   "--fixed-slice: '" + text +
                       "': no such function; NAME=PERMILLE of resnet50, mobilenet-v2 or bert-base"};
    int permille = 0;
    const char* const end = text.data() + text.size();
    if (equals == std::string::npos ||
        std::from_chars(text.data() + equals + 1, end, permille).ptr != end ||
        permille < kLeastSlice || permille > kMostSlice)
      return Error{ErrorKind::kInvalid, "--fixed-slice: '" + text + "': permille must be from " +
                                            std::to_string(kLeastSlice) + " to " +
                                            std::to_string(kMostSlice)};
    slices[name] = permille;
  }
  return slices;
}

// Checked before the load is played, not after.
Result<void> check_writable(const std::string& path) {
  if (path.empty() || std::ofstream(path, std::ios::app)) return {};
  return Error{ErrorKind::kInvalid, "--report: " + path + " cannot be written"};
}

// has-gpu first, whose cost sizes `fixed`; exclusive last, to which all costs are compared.
std::vector<QuickstartFlags> plays_of(const QuickstartFlags& f) {
  std::vector<QuickstartFlags> plays;
  const auto add = [&](const char* policy, bool borrow = false) {
    plays.push_back(f);
    plays.back().policy = policy;
    plays.back().borrow = borrow;
  };
  add("has-gpu");
  if (f.wide) add("has-gpu-paper");
  add("fixed");
  if (f.wide) add("fixed", true);
  add("exclusive");
  return plays;
}

Result<json> compare(const Session& session, const QuickstartFlags& flags) {
  std::vector<Plan> plans;
  std::vector<json> reports;
  for (QuickstartFlags& f : plays_of(flags)) {
    if (f.policy == "fixed" && f.slices.empty()) f.slices = slices_of_equal_cost(reports.front());
    SLUICE_ASSIGN(report, play(session, f, plans));
    print_report(report);
    SLUICE_TRY(nothing_failed(report));
    reports.push_back(std::move(report));
  }
  for (json& report : reports)
    for (size_t i = 0; i < report["functions"].size(); ++i)
      report["functions"][i]["exclusive_cost_per_1k"] =
          reports.back()["functions"][i]["cost_per_1k"];
  print_comparison(reports);
  return json{{"policies", reports}};
}

Result<void> quickstart(const Session& session, const QuickstartFlags& f) {
  const SteadyClock clock;
  const Time begin = clock.now();
  SLUICE_TRY(check_writable(f.report));
  json report;
  if (f.compare) {
    SLUICE_ASSIGN(all, compare(session, f));
    report = std::move(all);
  } else if (f.training) {
    SLUICE_ASSIGN(all, play_with_training(session, f));
    report = std::move(all);
  } else {
    std::vector<Plan> plans;
    SLUICE_ASSIGN(one, play(session, f, plans));
    print_report(one);
    report = std::move(one);
  }
  if (!f.report.empty() && !(std::ofstream(f.report) << report.dump(2) << "\n"))
    return Error{ErrorKind::kInvalid, "--report: " + f.report + " cannot be written"};
  if (f.keep)
    std::cout << "\nthe platform goes on: sluice --data " << session.data
              << " top; end it with: sluice --data " << session.data << " down\n";
  std::cout << "done in " << fixed(seconds(clock.now() - begin), 0) << " s\n";
  return f.compare || f.training ? Result<void>() : nothing_failed(report);
}

}  // namespace

void add_quickstart(CLI::App& app, Session& session, Outcome& outcome) {
  auto f = std::make_shared<QuickstartFlags>();
  f->models = home() + "/.cache/sluice/models";
  f->training_data = home() + "/.cache/sluice/training";
  f->trace = "scenarios/bursty.txt";
  CLI::App* command = app.add_subcommand(
      "quickstart", "the main job: three models under a bursty load (what ./quickstart runs)");
  command->add_option("--seconds", f->seconds, "of load")
      ->check(number_from(1, 86'400.0))
      ->capture_default_str();
  std::vector<std::string> policies;
  for (const policy::Bundle& b : policy::bundles()) policies.emplace_back(b.name);
  auto* policy = command->add_option("--policy", f->policy)
                     ->check(CLI::IsMember(policies))
                     ->capture_default_str();
  command->add_option("--report", f->report, "write the report there, as JSON");
  auto* keep = command->add_flag("--keep", f->keep, "leave the platform running");
  auto* comparing =
      command
          ->add_flag(
              "--compare", f->compare,
              "play the same load under has-gpu, under fixed at has-gpu's mean cost, and under "
              "exclusive")
          ->excludes(policy)
          ->excludes(keep);
  command
      ->add_flag("--wide", f->wide,
                 "--compare also with has-gpu-paper and with fixed that may borrow idle time")
      ->needs(comparing);
  command
      ->add_flag("--training", f->training,
                 "play the load and a training job, each alone and both together")
      ->excludes(comparing)
      ->excludes(keep);
  command->add_option("--training-data", f->training_data, "folder of tools/make_training")
      ->capture_default_str();
  std::vector<std::string> functions;
  for (const char* model : kQuickstartModels) functions.push_back(function_of(model));
  command
      ->add_option("--only", f->only, "play these of the functions, with the load of all of them")
      ->check(CLI::IsMember(functions));
  command->add_option("--models", f->models, "folder of tools/make_models")->capture_default_str();
  command->add_option("--trace", f->trace, "rate file, relative rates")->capture_default_str();
  command->add_option("--seed", f->seed)->capture_default_str();
  command->add_option("--level", f->level, "mean load, as a part of all devices")
      ->check(number_from(0.01, 2.0))
      ->capture_default_str();
  auto slices = std::make_shared<std::vector<std::string>>();
  command->add_option("--fixed-slice", *slices,
                      "policy fixed: NAME=PERMILLE of a device's time for each function");
  command->add_flag("--borrow", f->borrow, "policy fixed: idle time of its device too")
      ->excludes(comparing);
  command->callback([=, &app, &session, &outcome] {
    Session own = session;
    // Root's home may be closed to the users that a training job's workers run as.
    if (app.get_option("--data")->count() == 0)
      own.data =
          geteuid() == 0 ? "/var/lib/sluice-quickstart" : home() + "/.cache/sluice/quickstart";
    const auto parsed = parse_slices(*slices);
    if (!parsed.ok()) {
      outcome = parsed.error();
      return;
    }
    f->slices = *parsed;
    outcome = quickstart(own, *f);
  });
}

}  // namespace sluice::cli
