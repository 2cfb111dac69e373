// `sluice load FUNCTION`: an open-loop load through the gateway, and its results.
#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <iostream>
#include <optional>

#include "cli/limits.h"
#include "cli/load_report.h"
#include "cli/load_run.h"
#include "cli/payload.h"
#include "cli/session.h"
#include "cli/table.h"
#include "sim/rate_file.h"

namespace sluice::cli {
namespace {

std::atomic<bool> interrupted = false;

struct LoadFlags {
  std::vector<std::string> functions;
  std::string arrivals = "poisson", rates, duration = "30s", step = "1s", token, body, path;
  double rate = 10, cv = 1, scale = 1;
  int batch = 1, connections = 512;
  uint64_t seed = 1;
  std::optional<double> max_failures;  // per cent
};

// Returns the request for every function: --body, or one made up from the signature.
Result<Payload> payload_of(const LoadFlags& f, const nlohmann::json& inputs) {
  if (!f.path.empty() && f.body.empty()) return Payload{};
  if (f.body.empty()) return make_payload(inputs, f.batch, f.seed);
  SLUICE_ASSIGN(text, read_file(f.body));
  return Payload{.body = text};
}

Result<void> load(const Session& session, const LoadFlags& f) {
  SLUICE_ASSIGN(duration, sim::parse_duration(f.duration));
  RatePlan plan{{duration, f.rate}};
  if (!f.rates.empty()) {
    SLUICE_ASSIGN(step, sim::parse_duration(f.step));
    SLUICE_ASSIGN(text, read_file(f.rates));
    const auto parsed = sim::parse_rates(text, {.step = step, .scale = f.scale});
    if (!parsed.ok()) return within(f.rates, parsed.error());
    plan = fit_to(*parsed, duration);
  }
  const Gaps gaps{f.arrivals == "constant" ? Gaps::Kind::kConstant
                  : f.arrivals == "gamma"  ? Gaps::Kind::kGamma
                                           : Gaps::Kind::kPoisson,
                  f.cv};
  SLUICE_ASSIGN(server, session.gateway());
  std::vector<LoadTarget> targets;
  for (const std::string& name : f.functions) {
    SLUICE_ASSIGN(info, session.api(wire::http::verb::get, session.function_path(name)));
    SLUICE_ASSIGN(payload, payload_of(f, info["inputs"]));
    const std::string served = served_name(session.named(name));
    targets.push_back(
        {.name = name,
         .method =
             !f.path.empty() && f.body.empty() ? wire::http::verb::get : wire::http::verb::post,
         .path =
             f.path.empty() ? "/v2/models/" + served + "/infer" : "/functions/" + served + f.path,
         .body = payload.body,
         .content_type = payload.json_bytes == 0 ? "application/json" : "application/octet-stream",
         .json_bytes = payload.json_bytes,
         .token = f.token,
         .plan = plan,
         .gaps = gaps,
         .seed = f.seed + targets.size(),
         .slo = from_millis(info["slo_ms"].get<double>()),
         .percentile = info["percentile"].get<double>()});
  }
  std::signal(SIGINT, [](int) { interrupted = true; });
  const auto results = run_load(
      targets, {.server = server, .connections = f.connections},
      [&](Nanos since, const auto& so_far) {
        if (session.json()) return;
        std::cerr << fixed(seconds(since), 0) << "s";
        for (const LoadResult& r : so_far)
          std::cerr << "  " << r.name << " " << r.ok << "/" << r.sent;
        std::cerr << "\n";
      },
      &interrupted);
  if (session.json())
    print(report_of(results));
  else
    std::cout << table_of(results) << std::flush;
  for (const std::string& line : missed_rates(results, f.connections))
    std::cerr << "sluice: " << line << "\n";
  for (const std::string& line : missed_objectives(targets, results))
    std::cerr << "sluice: " << line << "\n";
  SLUICE_TRY(anything_answered(results));
  return f.max_failures ? few_failures(results, *f.max_failures) : Result<void>();
}

}  // namespace

void add_load(CLI::App& app, Session& session, Outcome& outcome) {
  auto f = std::make_shared<LoadFlags>();
  CLI::App* command =
      app.add_subcommand("load",
                         "send an open-loop load; latency counts from the intended send time.\n"
                         "Exit code 1 when a function answered no request with 200, or when more\n"
                         "requests failed than `--max-failures` allows.");
  command->add_option("functions", f->functions)->required();
  command->add_option("--rate", f->rate, "requests per second")
      ->check(number_from(0, 1e6))
      ->capture_default_str();
  command->add_option("--duration", f->duration)->capture_default_str();
  command->add_option("--arrivals", f->arrivals)
      ->check(CLI::IsMember({"constant", "poisson", "gamma"}))
      ->capture_default_str();
  command->add_option("--cv", f->cv, "of gamma arrivals")
      ->check(number_from(0.01, 20.0))
      ->capture_default_str();
  command->add_option("--rates", f->rates, "a rate file (docs/rate-file.md) instead of --rate");
  command->add_option("--scale", f->scale, "multiplies the file's rates")
      ->check(number_from(0, 1e6))
      ->capture_default_str();
  command->add_option("--step", f->step, "of the file's lines without a duration")
      ->capture_default_str();
  command->add_option("--body", f->body,
                      "file with every request's JSON; without: made up from the signature");
  command->add_option("--path", f->path, "of functions with protocol http; GET without a body")
      ->check(begins_with_slash);
  command
      ->add_option("--max-failures", f->max_failures,
                   "exit with 1 when a larger part of the requests is shed or fails, per cent")
      ->check(number_from(0, 100));
  command->add_option("--batch", f->batch, "inferences in a request")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--connections", f->connections, "at most")
      ->check(CLI::Range(1, 20'000))
      ->capture_default_str();
  command->add_option("--seed", f->seed)->capture_default_str();
  command->add_option("--token", f->token, "the functions'");
  add_namespace(*command, session);
  command->callback([=, &session, &outcome] { outcome = load(session, *f); });
}

}  // namespace sluice::cli
