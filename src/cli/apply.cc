// `sluice apply -f FILE…`: makes functions match their files. Idempotent.
#include <CLI/CLI.hpp>
#include <future>
#include <iostream>

#include "cli/estimates.h"
#include "cli/files.h"
#include "cli/session.h"
#include "cli/wait.h"

namespace sluice::cli {
namespace {

using nlohmann::json;

// The platform reads and copies new models before it answers: a large one takes minutes.
constexpr Nanos kLongestApply = Seconds(24 * 3600);
constexpr Nanos kSaidAfter = Seconds(3);

// Returns what happened to a file's functions, or would happen.
Result<json> apply_file(const Session& session, const FunctionFile& file, bool dry) {
  const std::string target = "/v1/functions?file=" + escaped(file.name) +
                             "&folder=" + escaped(file.folder) + "&home=" + escaped(home()) +
                             (dry ? "&dry_run=1" : "");
  auto applied = std::async(std::launch::async, [&] {
    return session.api_raw(wire::http::verb::post, target, file.text, "application/yaml",
                           kLongestApply);
  });
  if (applied.wait_for(kSaidAfter) == std::future_status::timeout)
    std::cerr << "sluice: " << file.name << ": the platform reads and copies new models\n";
  SLUICE_ASSIGN(answer, applied.get());
  if (answer.result_int() != 200)
    return refused(static_cast<int>(answer.result_int()), answer.body());
  SLUICE_ASSIGN(body, wire::parse_json(answer.body()));
  return body["results"];
}

void print_result(const json& result, bool dry) {
  std::cout << result["function"].get<std::string>() << " revision " << result["revision"] << " "
            << result["action"].get<std::string>() << (dry ? " (dry run)" : "") << "\n";
  for (const auto& line : result["difference"])
    std::cout << "  " << line.get<std::string>() << "\n";
  for (const auto& warning : result["warnings"])
    std::cerr << "sluice: " << result["function"].get<std::string>() << ": "
              << warning.get<std::string>() << "\n";
}

struct ApplyFlags {
  std::vector<std::string> files;
  bool dry = false, estimate = true;
  WaitFlags wait;
};

Result<void> apply(const Session& session, const ApplyFlags& f) {
  if (const auto timeout = timeout_of(f.wait); !timeout.ok()) return timeout.error();
  SLUICE_ASSIGN(files, read_files(f.files));
  // A file is applied whole or not at all; of several, all are checked before one is applied.
  if (files.size() > 1)
    for (const FunctionFile& file : files) {
      const auto checked = apply_file(session, file, true);
      if (!checked.ok()) return checked.error();
    }
  // Before, so that the first decision knows of them.
  if (!f.dry && f.estimate) estimate_models(session, files);
  json all = json::array();
  std::vector<Awaited> awaited;
  for (const FunctionFile& file : files) {
    SLUICE_ASSIGN(results, apply_file(session, file, f.dry));
    for (const json& result : results) {
      all.push_back(result);
      awaited.push_back({function_name(result["function"]), result["revision"]});
      if (!session.json()) print_result(result, f.dry);
    }
  }
  std::cout << std::flush;
  auto waited = f.dry ? Result<void>() : wait_as_asked(session, f.wait, awaited);
  if (session.json()) print(all);
  return waited;
}

}  // namespace

void add_apply(CLI::App& app, Session& session, Outcome& outcome) {
  auto f = std::make_shared<ApplyFlags>();
  CLI::App* command = app.add_subcommand("apply", "make functions what files say");
  command
      ->add_option("-f,--filename", f->files,
                   "function files, or folders of them; - is standard input")
      ->required();
  command->add_flag("--dry-run", f->dry, "show the difference, change nothing");
  command->add_flag("--estimate,!--no-estimate", f->estimate,
                    "of a model that was never measured, estimate the times by its operators "
                    "(default)");
  add_wait(*command, f->wait);
  command->callback([=, &session, &outcome] { outcome = apply(session, *f); });
}

}  // namespace sluice::cli
