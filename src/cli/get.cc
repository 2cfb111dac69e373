// `sluice get …`: lists the platform's objects, a line each.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <thread>

#include "base/words.h"
#include "cli/decisions.h"
#include "cli/listing.h"
#include "cli/noun.h"
#include "cli/session.h"

namespace sluice::cli {
namespace {

using nlohmann::json;
using wire::http::verb;

struct GetFlags {
  std::string what, name;
  int limit = 30;
  bool names = false, watch = false;
};

// Returns the function of a row of any listing; empty if it belongs to none.
std::string function_of(const std::string& what, const json& row) {
  if (what == "functions" || what == "jobs")
    return row["namespace"].get<std::string>() + "/" + row["name"].get<std::string>();
  return row.value("function", "");
}

json kept(const json& rows, const std::function<bool(const json&)>& wanted) {
  json out = json::array();
  for (const json& row : rows)
    if (wanted(row)) out.push_back(row);
  return out;
}

Result<json> named_devices(const json& devices, const std::string& name) {
  json out = kept(devices, [&](const json& d) { return d["id"] == name || d["uuid"] == name; });
  if (out.empty()) return Error{ErrorKind::kNotFound, not_found("device", name, ids_of(devices))};
  return out;
}

// Returns the instances of a function, which may have none, or the one of that name.
Result<json> named_instances(const Session& session, const json& all, const std::string& name) {
  const std::string function = to_string(session.named(name));
  json out = kept(all, [&](const json& i) { return i["id"] == name || i["function"] == function; });
  if (!out.empty() || session.api(verb::get, session.function_path(name)).ok()) return out;
  return Error{ErrorKind::kNotFound, not_found("function or instance", name, ids_of(all))};
}

// Returns the rows of that function. For an unknown function the platform lists the known ones.
Result<json> rows_of_function(const Session& session, const std::string& what, const json& all,
                              const std::string& name) {
  const auto there = session.api(verb::get, session.function_path(name));
  if (!there.ok()) return there.error();
  if (what == "jobs" && !there->contains("job")) return no_job(name);
  const std::string function = to_string(session.named(name));
  return kept(all, [&](const json& row) { return function_of(what, row) == function; });
}

// Returns the profiles of the models that a function's revisions have.
Result<json> profiles_of_function(const Session& session, const json& all,
                                  const std::string& name) {
  SLUICE_ASSIGN(revisions, session.api(verb::get, "/v1/revisions"));
  SLUICE_ASSIGN(own, rows_of_function(session, "revisions", revisions, name));
  json models = own;  // and their variants
  for (const json& r : own)
    for (const json& v : r.value("variants", json::array())) models.push_back(v);
  return kept(all, [&](const json& p) {
    return std::ranges::any_of(models, [&](const json& m) {
      const std::string content = p["content"];
      return content.empty() ? m["model"] == p["model"] : m.value("content", "") == content;
    });
  });
}

Result<json> rows(const Session& session, const GetFlags& f) {
  if (f.what == "decisions") return decisions_of(session, f.name, f.limit);
  if (f.what == "checkpoints" && f.name.empty())
    return Error{ErrorKind::kInvalid, "get checkpoints: name the job: sluice get checkpoints JOB"};
  if (f.what == "checkpoints") {
    SLUICE_ASSIGN(job, session.api(verb::get, session.function_path(f.name)));
    if (!job.contains("job")) return no_job(f.name);
    return session.api(verb::get, session.function_path(f.name) + "/checkpoints");
  }
  SLUICE_ASSIGN(all, session.api(verb::get, "/v1/" + (f.what == "jobs" ? "functions" : f.what)));
  if (f.what == "jobs" || (f.what == "functions" && f.name.empty()))
    all = kept(all, [&](const json& row) { return row.contains("job") == (f.what == "jobs"); });
  if (f.what == "nodes" && !f.name.empty()) {
    json found = kept(all, [&](const json& n) { return n["name"] == f.name; });
    std::vector<std::string> names;
    for (const json& n : all) names.push_back(n["name"]);
    if (found.empty()) return Error{ErrorKind::kNotFound, not_found("node", f.name, names)};
    return found;
  }
  if (f.what == "plans" && !f.name.empty())
    all["jobs"] = kept(all["jobs"], [&](const json& j) { return j["name"] == f.name; });
  if (f.what == "nodes" || f.what == "plans") return all;
  if (f.what == "devices") return f.name.empty() ? all : named_devices(all, f.name);
  if (f.what == "instances" && !f.name.empty()) return named_instances(session, all, f.name);
  if (f.what == "profiles")
    return f.name.empty() ? all : profiles_of_function(session, all, f.name);
  if (!f.name.empty()) return rows_of_function(session, f.what, all, f.name);
  if (session.space.empty()) return all;
  return kept(all, [&](const json& row) {
    return function_of(f.what, row).starts_with(session.space + "/");
  });
}

// Prints the names by which other commands know the rows, a line each; for the shell's completion.
Result<void> print_names(const std::string& what, const json& list) {
  if (what == "revisions" || what == "decisions" || what == "profiles" || what == "plans" ||
      what == "checkpoints")
    return Error{
        ErrorKind::kInvalid,
        "--names: " + what + " have none; functions, jobs, instances, devices and nodes do"};
  for (const json& row : list)
    std::cout << (what == "functions" || what == "jobs"
                      ? short_name(row)
                      : row.value(what == "nodes" ? "name" : "id", ""))
              << "\n";
  return {};
}

// Once a second until a signal ends this process: redraws a terminal; elsewhere appends what has
// changed.
Result<void> watch(const Session& session, const GetFlags& f) {
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  std::string before;
  for (;;) {
    SLUICE_ASSIGN(list, rows(session, f));
    const std::string now = session.json()
                                ? list.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"
                                : listing(f.what, list);
    if (now != before)
      std::cout << (terminal && !session.json() ? "\033[H\033[J" : "") << now << std::flush;
    before = now;
    std::this_thread::sleep_for(Seconds(1));
  }
}

Result<void> get(const Session& session, const GetFlags& f) {
  if (f.watch && f.what == "decisions") return stream_decisions(session, f.name, f.limit, true);
  if (f.watch) return watch(session, f);
  SLUICE_ASSIGN(list, rows(session, f));
  if (f.names) return print_names(f.what, list);
  if (session.json())
    print(list);
  else
    std::cout << listing(f.what, list);
  return {};
}

}  // namespace

void add_get(CLI::App& app, Session& session, Outcome& outcome) {
  auto f = std::make_shared<GetFlags>();
  CLI::App* command = app.add_subcommand(
      "get",
      "list functions, jobs, revisions, instances, devices, nodes, profiles, plans, decisions, or "
      "a job's checkpoints");
  command
      ->add_option("what", f->what,
                   "also in short: fn, job, rev, inst, dev, no, prof, plan, dec, cp")
      ->required()
      ->transform(noun());
  command->add_option("name", f->name,
                      "only this function or device; instances, revisions, profiles and decisions: "
                      "only of this function; an instance's own name, too");
  command->add_option("--limit", f->limit, "of decisions")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command->add_flag("--names", f->names, "of functions, instances or devices: a line each");
  command->add_flag("-w,--watch", f->watch,
                    "again each second, until Ctrl-C; of decisions: those that come");
  add_namespace(*command, session);
  command->footer([f]() -> std::string {
    return f->what.empty() ? "`sluice get functions --help` explains the columns of functions, and "
                             "so on."
                           : "Columns of " + f->what + ":\n" + legend(f->what);
  });
  command->callback([=, &session, &outcome] { outcome = get(session, *f); });
}

}  // namespace sluice::cli
