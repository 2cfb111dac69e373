#include "cli/session.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "base/system_error.h"
#include "cli/cluster_api.h"

namespace sluice::cli {

using nlohmann::json;

std::string home() {
  const char* h = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe): one thread
  return h != nullptr && *h != 0 ? h : "/root";
}

std::string default_data() {
  if (const char* set = std::getenv("SLUICE_DATA"); set != nullptr && *set != 0)
    return set;  // NOLINT(concurrency-mt-unsafe)
  return geteuid() == 0 ? "/var/lib/sluice" : home() + "/.local/share/sluice";
}

std::string Session::hint(const std::string& command) const {
  return "sluice " + (data == default_data() ? "" : "--data " + data + " ") + command;
}

FunctionName Session::named(const std::string& name) const {
  FunctionName f = function_name(name);
  if (!space.empty() && name.find('/') == name.npos) f.space = space;
  return f;
}

std::string Session::function_path(const std::string& name) const {
  const FunctionName f = named(name);
  return "/v1/functions/" + escaped(f.space) + "/" + escaped(f.name);
}

namespace {

// One for the whole process: a command makes several calls.
Result<std::shared_ptr<const ClusterApi>> cluster_of(const Session& session) {
  static std::shared_ptr<const ClusterApi> opened;
  if (opened) return opened;
  SLUICE_ASSIGN(config, session.kubeconfig.empty() ? kube::default_config()
                                                   : kube::config_from_file(session.kubeconfig));
  SLUICE_ASSIGN(api, ClusterApi::open(config, session.system));
  opened = std::move(api);
  return opened;
}

}  // namespace

NodeClient Session::node() const {
  return NodeClient(*this);
}

Error Session::nobody(const std::string& why) const {
  if (access(run("api.sock").c_str(), W_OK) != 0 && errno == EACCES)
    return {ErrorKind::kDenied, "the platform on " + data + " is another user's (" + why + ")"};
  return {ErrorKind::kUnavailable,
          "no platform runs on " + data + " (" + why + "); start one: " + hint("up")};
}

Result<wire::HttpResponse> Session::api_raw(wire::http::verb method, const std::string& target,
                                            std::string body, std::string_view type,
                                            Nanos timeout) const {
  if (on_cluster) {
    SLUICE_ASSIGN(api, cluster_of(*this));
    return api->call(method, target, std::move(body), type, timeout);
  }
  wire::HttpClient client({.path = run("api.sock")}, timeout);
  auto answer = client.call(method, target, std::move(body), type);
  if (!answer.ok() && answer.error().kind == ErrorKind::kUnavailable)
    return nobody(answer.error().message);
  return answer;
}

Result<json> Session::api(wire::http::verb method, const std::string& target,
                          const nlohmann::json& body) const {
  SLUICE_ASSIGN(answer,
                api_raw(method, target, body.is_null() ? "" : body.dump(), "application/json"));
  auto parsed = wire::parse_json(answer.body());
  if (answer.result_int() / 100 == 2) return parsed;
  return refused(static_cast<int>(answer.result_int()), answer.body());
}

Result<json> NodeClient::json(wire::http::verb method, const std::string& target,
                              const nlohmann::json& body) {
  const auto answer = http_.call(method, target, body.is_null() ? "" : body.dump());
  if (!answer.ok() && answer.error().kind == ErrorKind::kUnavailable)
    return session_->nobody(answer.error().message);
  if (!answer.ok()) return answer.error();
  if (answer->result_int() / 100 != 2)
    return refused(static_cast<int>(answer->result_int()), answer->body());
  return answer->body().empty() ? Result<nlohmann::json>(nlohmann::json())
                                : wire::parse_json(answer->body());
}

Error refused(int status, const std::string& body) {
  const json parsed = json::parse(body, nullptr, false);
  const bool told = parsed.is_object() && parsed.contains("error") && parsed["error"].is_string();
  ErrorKind kind = wire::error_kind(status);
  if (kind == ErrorKind::kUnavailable)
    kind = status == 503 ? ErrorKind::kExhausted : ErrorKind::kInternal;
  return {kind, told ? parsed["error"].get<std::string>() : body};
}

Error no_job(const std::string& name) {
  return {ErrorKind::kNotFound, "job '" + name + "' not found; that is an inference function"};
}

void add_namespace(CLI::App& command, Session& session) {
  command.add_option("-n,--namespace", session.space,
                     "the namespace of names that state none (else: default)");
}

Result<wire::Endpoint> Session::gateway() const {
  const auto text = read_file(run("gateway.address"));
  if (!text.ok()) return nobody(text.error().message);
  return wire::parse_endpoint(text->substr(0, text->find('\n')));
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) ||
        std::string_view("-_.~/").find(c) != std::string_view::npos) {
      out += c;
    } else {
      char hex[4];
      std::snprintf(hex, sizeof(hex), "%%%02X", static_cast<unsigned char>(c));
      out += hex;
    }
  }
  return out;
}

Result<std::string> read_file(const std::string& path, size_t most) {
  const auto read = [&](std::istream& in) -> Result<std::string> {
    std::string text;
    std::array<char, 65'536> piece;
    while (in.read(piece.data(), piece.size()) || in.gcount() > 0) {
      text.append(piece.data(), static_cast<size_t>(in.gcount()));
      if (text.size() > most)
        return Error{ErrorKind::kInvalid,
                     path + ": is longer than " + std::to_string(most) + " bytes"};
    }
    return text;
  };
  if (path == "-") return read(std::cin);
  std::error_code fault;
  if (std::filesystem::is_directory(path, fault))
    return Error{ErrorKind::kInvalid, path + ": is a folder, not a file"};
  if (fault.value() == EACCES) return system_error(path, fault.value());
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error{ErrorKind::kNotFound, path + ": cannot be read"};
  return read(in);
}

void print(const json& value) {
  // A program may have printed anything: invalid UTF-8 is replaced.
  std::cout << value.dump(2, ' ', false, json::error_handler_t::replace) << "\n";
}

int exit_code(const Error& e) {
  switch (e.kind) {
    case ErrorKind::kInvalid:
      return 2;
    case ErrorKind::kNotFound:
      return 3;
    case ErrorKind::kUnavailable:
      return 4;
    case ErrorKind::kConflict:
    case ErrorKind::kExhausted:
      return 5;
    case ErrorKind::kDenied:
      return 6;
    case ErrorKind::kTimeout:
      return 7;
    case ErrorKind::kInternal:
      return 1;
  }
  return 1;
}

}  // namespace sluice::cli
