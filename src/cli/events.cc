// `sluice events [NAME]`: decisions as a stream of lines, newest last.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <thread>

#include "base/words.h"
#include "cli/decisions.h"
#include "cli/listing.h"

namespace sluice::cli {

using nlohmann::json;
using wire::http::verb;

namespace {

constexpr int kMostDecisions = 10'000;    // decisions per request
constexpr int kMostNewDecisions = 1'000;  // the same while it follows, every half second
constexpr Nanos kDecisionPollInterval = Millis(500);

// Returns an error if there can be no decisions of that function.
Result<void> check_function(const Session& session, const std::string& function) {
  const auto there = session.api(verb::get, session.function_path(function));
  if (there.ok()) return {};
  if (!is_program(session, function)) return there.error();
  return Error{ErrorKind::kNotFound,
               "'" + function + "' is a program of `sluice run`: no policy decides about it; `" +
                   session.hint("describe instance " + function) + "` shows its slice"};
}

void print_line(const Session& session, const json& decision) {
  if (session.json())
    std::cout << decision.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
  else
    std::cout << decision_line(decision) << std::endl;
}

}  // namespace

bool is_program(const Session& session, const std::string& name) {
  const auto all = session.api(verb::get, "/v1/instances");
  return all.ok() && std::ranges::any_of(*all, [&](const json& i) {
           return i["id"] == name && i.value("foreign", false);
         });
}

Result<json> decisions_of(const Session& session, const std::string& function, int limit,
                          int searched) {
  const bool of_space = function.empty() && !session.space.empty();
  const std::string of = function.empty() ? "" : escaped(to_string(session.named(function)));
  SLUICE_ASSIGN(all, session.api(verb::get, "/v1/decisions?limit=" +
                                                std::to_string(of_space ? searched : limit) +
                                                "&function=" + of));
  if (all.empty() && !function.empty()) SLUICE_TRY(check_function(session, function));
  if (!of_space) return all;
  json own = json::array();
  for (const json& d : all)
    if (d["function"].get<std::string>().starts_with(session.space + "/") &&
        own.size() < static_cast<size_t>(limit))
      own.push_back(d);
  return own;
}

Result<void> stream_decisions(const Session& session, const std::string& function, int limit,
                              bool follow) {
  SLUICE_ASSIGN(now, decisions_of(session, function, limit, kMostDecisions));
  int64_t last = 0;
  for (;;) {
    for (auto d = now.rbegin(); d != now.rend(); ++d) {
      if ((*d)["number"] <= last) continue;
      print_line(session, *d);
      last = (*d)["number"];
    }
    if (!follow) return {};
    std::this_thread::sleep_for(kDecisionPollInterval);
    SLUICE_ASSIGN(later, decisions_of(session, function, kMostNewDecisions, kMostNewDecisions));
    now = std::move(later);
  }
}

std::vector<std::string> ids_of(const json& rows) {
  std::vector<std::string> ids;
  for (const json& row : rows) ids.push_back(row["id"]);
  return ids;
}

void add_events(CLI::App& app, Session& session, Outcome& outcome) {
  auto function = std::make_shared<std::string>();
  auto limit = std::make_shared<int>(30);
  auto follow = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "events", "decisions as a stream of lines, newest last; with -o json an object a line");
  command->add_option("function", *function, "only of this function");
  command->add_option("--limit", *limit, "so many that were before")
      ->check(CLI::Range(1, kMostDecisions))
      ->capture_default_str();
  command->add_flag("-f,--follow", *follow, "go on with those that come, until Ctrl-C");
  add_namespace(*command, session);
  command->callback(
      [=, &session, &outcome] { outcome = stream_decisions(session, *function, *limit, *follow); });
}

}  // namespace sluice::cli
