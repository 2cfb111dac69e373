#include "kube/config.h"

#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <filesystem>

#include "base/read_file.h"
#include "kube/base64.h"

namespace sluice::kube {
namespace {

constexpr const char* kAccount = "/var/run/secrets/kubernetes.io/serviceaccount";

// "https://host:port/" → its parts.
Result<void> read_server(const std::string& url, Config& c) {
  const bool tls = url.starts_with("https://");
  if (!tls && !url.starts_with("http://"))
    return Error{ErrorKind::kInvalid,
                 "server: '" + url + "' begins with neither https:// nor http://"};
  std::string at = url.substr(tls ? 8 : 7);
  if (at.ends_with("/")) at.pop_back();
  if (at.find('/') != std::string::npos)
    return Error{ErrorKind::kInvalid, "server: '" + url + "' has a path, which is not supported"};
  if (at.find(':') == std::string::npos) at += tls ? ":443" : ":80";
  SLUICE_ASSIGN(endpoint, wire::parse_endpoint(at));
  c.server = endpoint;
  c.tls = tls;
  return {};
}

std::string text(const YAML::Node& node) {
  return node && node.IsScalar() ? node.as<std::string>() : "";
}

// A field's text, that of NAME-data, or that of the file which it names.
Result<std::string> text_or_file(const YAML::Node& node, const std::string& name,
                                 const std::filesystem::path& folder) {
  if (const std::string data = text(node[name + "-data"]); !data.empty()) {
    auto decoded = from_base64(data);
    if (!decoded.ok()) return within(name + "-data", decoded.error());
    return decoded;
  }
  const std::string file = text(node[name]);
  if (file.empty()) return std::string();
  return read_file(folder / file);
}

YAML::Node named(const YAML::Node& list, const std::string& name, const std::string& kind) {
  for (const auto& item : list)
    if (text(item["name"]) == name) return item[kind];
  return {};
}

Result<Config> config_of(const YAML::Node& file, const std::filesystem::path& folder) {
  const YAML::Node context = named(file["contexts"], text(file["current-context"]), "context");
  if (!context.IsMap()) return Error{ErrorKind::kInvalid, "current-context names no context"};
  const YAML::Node cluster = named(file["clusters"], text(context["cluster"]), "cluster");
  const YAML::Node user = named(file["users"], text(context["user"]), "user");
  if (!cluster.IsMap() || !user.IsMap())
    return Error{ErrorKind::kInvalid, "the current context names no cluster or user that is there"};
  Config c;
  SLUICE_TRY(read_server(text(cluster["server"]), c));
  SLUICE_ASSIGN(ca, text_or_file(cluster, "certificate-authority", folder));
  SLUICE_ASSIGN(certificate, text_or_file(user, "client-certificate", folder));
  SLUICE_ASSIGN(key, text_or_file(user, "client-key", folder));
  c.shows = {.ca = ca, .own = {certificate, key}, .server_name = text(cluster["tls-server-name"])};
  c.token = text(user["token"]);
  if (const std::string path = text(user["tokenFile"]); !path.empty()) c.token_file = folder / path;
  if (const std::string space = text(context["namespace"]); !space.empty()) c.space = space;
  return c;
}

}  // namespace

Result<Config> config_in_cluster() {
  const char* host = std::getenv("KUBERNETES_SERVICE_HOST");
  const char* port = std::getenv("KUBERNETES_SERVICE_PORT");
  if (host == nullptr || port == nullptr)
    return Error{ErrorKind::kUnavailable, "this is no Pod: KUBERNETES_SERVICE_HOST is not set"};
  Config c;
  SLUICE_TRY(read_server("https://" + std::string(host) + ":" + port, c));
  SLUICE_ASSIGN(ca, read_file(std::string(kAccount) + "/ca.crt"));
  SLUICE_ASSIGN(space, read_file(std::string(kAccount) + "/namespace"));
  c.shows.ca = ca;
  c.space = space;
  c.token_file = std::string(kAccount) + "/token";
  return c;
}

Result<Config> config_from_file(const std::string& path) {
  SLUICE_ASSIGN(content, read_file(path));
  try {
    auto config = config_of(YAML::Load(content), std::filesystem::absolute(path).parent_path());
    if (!config.ok()) return within(path, config.error());
    return config;
  } catch (const YAML::Exception& e) {
    return Error{ErrorKind::kInvalid, path + ": " + e.what()};
  }
}

Result<Config> default_config() {
  if (std::getenv("KUBERNETES_SERVICE_HOST") != nullptr) return config_in_cluster();
  if (const char* path = std::getenv("KUBECONFIG"); path != nullptr && *path != '\0')
    return config_from_file(path);
  const char* home = std::getenv("HOME");
  return config_from_file(std::string(home != nullptr ? home : "") + "/.kube/config");
}

}  // namespace sluice::kube
