// State shared by every command that talks to the platform: its data directory, and how to print.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/function.h"
#include "wire/http/http.h"

namespace sluice::cli {

// A client of the node daemon's API. Errors are those of Session::api.
class NodeClient;

struct Session {
  std::string data;              // --data, SLUICE_DATA, or default_data()
  std::string output = "table";  // -o: table, json
  std::string space;             // -n: the namespace of names without one; empty: not given
  bool on_cluster = false;  // `kubectl sluice`, --cluster: the platform of a Kubernetes cluster
  std::string kubeconfig;   // of the cluster; empty: as kubectl finds it
  std::string system = "sluice-system";  // the platform's namespace there

  bool json() const { return output == "json"; }
  std::string run(const std::string& socket) const { return data + "/run/" + socket; }
  // Returns a command for a hint: "sluice up", or "sluice --data DIR up" if the user chose DIR.
  std::string hint(const std::string& command) const;
  // "NAME" or "NAMESPACE/NAME", as a user states it.
  FunctionName named(const std::string& name) const;
  std::string function_path(const std::string& name) const;  // "/v1/functions/NAMESPACE/NAME"
  // Returns kUnavailable, with how to start the platform; kDenied if it is another user's.
  Error nobody(const std::string& why) const;
  NodeClient node() const;
  // Calls the user's API.
  Result<nlohmann::json> api(wire::http::verb method, const std::string& target,
                             const nlohmann::json& body = nullptr) const;
  Result<wire::HttpResponse> api_raw(wire::http::verb method, const std::string& target,
                                     std::string body, std::string_view type,
                                     Nanos timeout = Seconds(60)) const;
  // Returns the gateway's address, as `sluice up` wrote it down.
  Result<wire::Endpoint> gateway() const;
};

// Returns /var/lib/sluice as root, else ~/.local/share/sluice.
std::string default_data();
std::string home();
std::string escaped(const std::string& text);  // for a query
// Returns the error for a refusal by a running platform; `body` is its answer. A status of 503 is
// kExhausted ("refused for now"), because kUnavailable means that no platform runs; 502 is
// kInternal.
Error refused(int status, const std::string& body);
// For an inference function where a training function's job was meant.
Error no_job(const std::string& name);
// Takes -n, --namespace.
void add_namespace(CLI::App& command, Session& session);

// "-": standard input. Returns kInvalid for more than `most` bytes.
Result<std::string> read_file(const std::string& path, size_t most = SIZE_MAX);
void print(const nlohmann::json& value);

class NodeClient {
 public:
  explicit NodeClient(const Session& session)
      : session_(&session), http_({.path = session.run("node.sock")}, Seconds(30)) {}
  Result<nlohmann::json> json(wire::http::verb method, const std::string& target,
                              const nlohmann::json& body = nullptr);

 private:
  const Session* session_;
  wire::HttpClient http_;
};

// Exit codes that scripts can rely on; `sluice --help` lists them.
int exit_code(const Error& error);

// Each adds its subcommands. If one was chosen, `outcome` is its result.
using Outcome = Result<void>;
void add_up(CLI::App& app, Session& session, Outcome& outcome);
void add_control(CLI::App& app, Outcome& outcome);  // started by `up`
void add_apply(CLI::App& app, Session& session, Outcome& outcome);
void add_init(CLI::App& app, Session& session, Outcome& outcome);
void add_inspect(CLI::App& app, Session& session, Outcome& outcome);
void add_get(CLI::App& app, Session& session, Outcome& outcome);
void add_describe(CLI::App& app, Session& session, Outcome& outcome);
void add_events(CLI::App& app, Session& session, Outcome& outcome);
void add_change(CLI::App& app, Session& session,
                Outcome& outcome);  // rollback, delete, drain, undrain
void add_policies(CLI::App& app, Session& session, Outcome& outcome);
void add_status(CLI::App& app, Session& session, Outcome& outcome);
void add_invoke(CLI::App& app, Session& session, Outcome& outcome);
void add_logs(CLI::App& app, Session& session, Outcome& outcome);
void add_predict(CLI::App& app, Session& session, Outcome& outcome);
void add_profile(CLI::App& app, Session& session, Outcome& outcome);
void add_load(CLI::App& app, Session& session, Outcome& outcome);
void add_top(CLI::App& app, Session& session, Outcome& outcome);
void add_run(CLI::App& app, Session& session, Outcome& outcome);  // run, resize
void add_simulate(CLI::App& app, Session& session, Outcome& outcome);
void add_quickstart(CLI::App& app, Session& session, Outcome& outcome);
void add_explain(CLI::App& app, Session& session, Outcome& outcome);
void add_kube(CLI::App& app, Outcome& outcome);
void add_completion(CLI::App& app, Outcome& outcome);
// For a completion script: prints what may replace the last of the words after "sluice".
void print_candidates(const CLI::App& app, Session& session, const std::vector<std::string>& words);

}  // namespace sluice::cli
