// `sluice profile -f FILE`: measures the models of a function file on this machine.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>

#include "cli/limits.h"
#include "cli/profile_run.h"
#include "cli/session.h"
#include "cli/table.h"
#include "control/function_file.h"
#include "control/store.h"
#include "control/validate.h"

namespace sluice::cli {
namespace {

struct ProfileFlags {
  std::vector<std::string> files;
  std::vector<int> batches{1, 2, 4, 8}, quotas{100, 70, 40, 20, 10};
  double seconds = 1;
};

Result<void> profile(const Session& session, const ProfileFlags& f) {
  Sweep sweep{.batches = f.batches, .per_point = from_seconds(f.seconds)};
  sweep.quotas.clear();
  for (const int q : f.quotas) sweep.quotas.push_back({q * 10});
  nlohmann::json all = nlohmann::json::array();
  for (const std::string& file : f.files) {
    SLUICE_ASSIGN(text, read_file(file));
    SLUICE_ASSIGN(
        specs,
        control::parse_functions(
            text,
            {.file = file, .folder = std::filesystem::absolute(file).parent_path(), .home = home()},
            control::check_model));
    for (FunctionSpec& spec : specs) {
      Table table({"BATCH", "SM", "QUOTA", "P50", "P95", "PER-S"});
      SLUICE_ASSIGN(
          measured,
          profile_model(session.run("node.sock"), spec, sweep, [&](const predict::ProfilePoint& p) {
            table.add({std::to_string(p.at.batch), percent(p.at.sm.permille),
                       percent(p.at.quota.permille), fixed(millis(p.latency_p50), 1) + "ms",
                       fixed(millis(p.latency_p95), 1) + "ms", fixed(p.throughput, 1)});
            if (!session.json()) std::cerr << "." << std::flush;
          }));
      nlohmann::json body = control::to_json(measured);
      body["model"] = spec.model.path;
      SLUICE_TRY([&]() -> Result<void> {
        const auto put = session.api(wire::http::verb::put, "/v1/profiles", body);
        return put.ok() ? Result<void>() : Result<void>(put.error());
      }());
      all.push_back(body);
      if (!session.json())
        std::cout << "\n"
                  << to_string(spec.name) << ": " << spec.model.path << ", "
                  << bytes(measured.memory) << "\n"
                  << table.text();
    }
  }
  if (session.json()) print(all);
  return {};
}

}  // namespace

void add_profile(CLI::App& app, Session& session, Outcome& outcome) {
  auto f = std::make_shared<ProfileFlags>();
  CLI::App* command =
      app.add_subcommand("profile", "measure models on this machine: batch × cores × quota");
  command->add_option("-f,--filename", f->files, "function files")->required();
  command->add_option("--batches", f->batches, "batch sizes")
      ->delimiter(',')
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--quotas", f->quotas, "shares of time, per cent")
      ->delimiter(',')
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command->add_option("--seconds", f->seconds, "at each point, at least")
      ->check(number_from(0.05, 600.0))
      ->capture_default_str();
  command->callback([=, &session, &outcome] { outcome = profile(session, *f); });
}

}  // namespace sluice::cli
