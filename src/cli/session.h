// What every command that talks to the platform shares: where its data directory is, how to print.
#pragma once

#include <CLI/App.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "wire/http.h"

namespace sluice::cli {

struct Session {
  std::string data;              // --data, SLUICE_DATA, or default_data()
  std::string output = "table";  // -o: table, json

  bool json() const { return output == "json"; }
  std::string run(const std::string& socket) const { return data + "/run/" + socket; }
  // kUnavailable, with how to start the platform; kDenied, where it is not ours.
  Error nobody(const std::string& why) const;
  // The user's API.
  Result<nlohmann::json> api(wire::http::verb method, const std::string& target,
                             const nlohmann::json& body = nullptr) const;
  Result<wire::HttpResponse> api_raw(wire::http::verb method, const std::string& target,
                                     std::string body, std::string_view type) const;
  // Where the gateway listens, as `sluice up` wrote it down.
  Result<wire::Endpoint> gateway() const;
};

// /var/lib/sluice as root, else ~/.local/share/sluice.
std::string default_data();
std::string home();
std::string escaped(const std::string& text);        // for a query
std::string function_path(const std::string& name);  // "/v1/functions/NAMESPACE/NAME"

Result<std::string> read_file(const std::string& path);  // "-": standard input
void print(const nlohmann::json& value);

// What scripts can rely on; `sluice --help` lists it.
int exit_code(const Error& error);

// Each adds its subcommands. When one was chosen, `outcome` is what became of it.
using Outcome = Result<void>;
void add_up(CLI::App& app, Session& session, Outcome& outcome);
void add_control(CLI::App& app, Outcome& outcome);  // started by `up`
void add_apply(CLI::App& app, Session& session, Outcome& outcome);
void add_init(CLI::App& app, Session& session, Outcome& outcome);
void add_get(CLI::App& app, Session& session, Outcome& outcome);
void add_change(CLI::App& app, Session& session,
                Outcome& outcome);  // rollback, delete, drain, undrain
void add_invoke(CLI::App& app, Session& session, Outcome& outcome);
void add_logs(CLI::App& app, Session& session, Outcome& outcome);
void add_profile(CLI::App& app, Session& session, Outcome& outcome);
void add_load(CLI::App& app, Session& session, Outcome& outcome);
void add_top(CLI::App& app, Session& session, Outcome& outcome);
void add_run(CLI::App& app, Session& session, Outcome& outcome);  // run, resize
void add_quickstart(CLI::App& app, Session& session, Outcome& outcome);
void add_completion(CLI::App& app, Outcome& outcome);

}  // namespace sluice::cli
