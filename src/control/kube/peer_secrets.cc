#include "control/kube/peer_secrets.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/replace_file.h"
#include "base/secret.h"
#include "control/kube/objects.h"
#include "kube/base64.h"

namespace sluice::control {
namespace {

using nlohmann::json;
using std::chrono::hours;

constexpr const char* kAuthoritySecret = "sluice-ca";
constexpr size_t kShortestToken = 16;  // an API without a token would be open to all
constexpr hours kAuthorityValid{24 * 3650}, kServerValid{24 * 90};

std::string data_in(const json& secret, const char* key) {
  const json data = secret.value("data", json());
  const json value = data.is_object() ? data.value(key, json()) : json();
  return value.is_string() ? kube::from_base64(value.get<std::string>()).value_or("") : "";
}

json secret_of(const std::string& space, const std::string& name, const wire::TlsIdentity& own,
               const std::string& ca) {
  return {{"apiVersion", "v1"},
          {"kind", "Secret"},
          {"type", "kubernetes.io/tls"},
          {"metadata", {{"name", name}, {"namespace", space}}},
          {"data",
           {{"tls.crt", kube::to_base64(own.certificate)},
            {"tls.key", kube::to_base64(own.key)},
            {"ca.crt", kube::to_base64(ca)}}}};
}

json token_object(const std::string& space) {
  return {{"apiVersion", "v1"},
          {"kind", "Secret"},
          {"metadata", {{"name", kTokenSecret}, {"namespace", space}}},
          {"data", {{"token", kube::to_base64(make_secret())}}}};
}

wire::TlsIdentity identity_in(const json& secret) {
  return {data_in(secret, "tls.crt"), data_in(secret, "tls.key")};
}

bool is_fresh(const std::string& certificate, UnixMillis wall) {
  const auto end = wire::ends_at(certificate);
  const UnixMillis valid = std::chrono::milliseconds(kServerValid).count();
  return end.ok() && *end - wall > valid / 3;
}

std::string text_in_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

boost::asio::awaitable<Result<wire::TlsIdentity>> authority(kube::Client& client,
                                                            std::string space) {
  const std::string path = path_in("/api/v1/secrets", space, kAuthoritySecret);
  auto found = co_await client.call(kube::Call(path));
  if (!found.ok() && found.error().kind == ErrorKind::kNotFound) {
    const auto made = wire::make_authority("sluice", kAuthorityValid);
    if (!made.ok()) co_return made.error();
    const auto written = co_await client.call(
        kube::Call(kube::verb::post, path_in("/api/v1/secrets", space),
                   secret_of(space, kAuthoritySecret, *made, made->certificate)));
    if (written.ok()) co_return *made;
    if (written.error().kind != ErrorKind::kConflict) co_return written.error();
    found = co_await client.call(kube::Call(path));  // another was first
  }
  if (!found.ok()) co_return found.error();
  const wire::TlsIdentity kept = identity_in(*found);
  if (!wire::ends_at(kept.certificate).ok() || kept.key.empty())
    co_return Error{ErrorKind::kInvalid,
                    "it has no certificate or key; delete it, and both are made"};
  co_return kept;
}

boost::asio::awaitable<Result<std::string>> api_token(kube::Client& client, std::string space) {
  const std::string path = path_in("/api/v1/secrets", space, kTokenSecret);
  for (;;) {
    const auto found = co_await client.call(kube::Call(path));
    if (!found.ok() && found.error().kind != ErrorKind::kNotFound) co_return found.error();
    if (found.ok()) {
      std::string token = data_in(*found, "token");
      if (token.size() >= kShortestToken) co_return token;
      co_return Error{ErrorKind::kInvalid, "it has no token of at least " +
                                               std::to_string(kShortestToken) +
                                               " bytes; delete it, and a new one is made"};
    }
    const auto written = co_await client.call(
        kube::Call(kube::verb::post, path_in("/api/v1/secrets", space), token_object(space)));
    if (!written.ok() && written.error().kind != ErrorKind::kConflict) co_return written.error();
  }
}

boost::asio::awaitable<Result<wire::TlsIdentity>> server_secret(
    kube::Client& client, std::string space, std::string secret, wire::TlsIdentity authority,
    std::vector<std::string> names, UnixMillis wall) {
  const std::string path = path_in("/api/v1/secrets", space, secret);
  const auto found = co_await client.call(kube::Call(path));
  if (!found.ok() && found.error().kind != ErrorKind::kNotFound) co_return found.error();
  if (found.ok()) {
    const wire::TlsIdentity own = identity_in(*found);
    if (is_fresh(own.certificate, wall) && data_in(*found, "ca.crt") == authority.certificate)
      co_return own;
  }
  const auto issued = wire::issue(authority, {names.front(), names, kServerValid});
  if (!issued.ok()) co_return issued.error();
  json object = secret_of(space, secret, *issued, authority.certificate);
  if (found.ok()) object["metadata"]["resourceVersion"] = (*found)["metadata"]["resourceVersion"];
  kube::Call call(kube::verb::post, path_in("/api/v1/secrets", space), std::move(object));
  if (found.ok()) call.method = kube::verb::put, call.target = path;
  const auto written = co_await client.call(std::move(call));
  if (!written.ok()) co_return written.error();
  co_return *issued;
}

// The certificate last: a TlsFolder reads both when that one has changed.
Result<bool> keep_certificate(const std::string& folder, const wire::TlsIdentity& authority,
                              const std::vector<std::string>& names, UnixMillis wall) {
  const std::string certificate = folder + "/tls.crt", ca = folder + "/ca.crt";
  if (is_fresh(text_in_file(certificate), wall) && text_in_file(ca) == authority.certificate)
    return false;
  SLUICE_ASSIGN(made, wire::issue(authority, {names.front(), names, kServerValid}));
  std::error_code fault;
  std::filesystem::remove(ca, fault);  // a process killed between the two makes both anew
  SLUICE_TRY(replace_file(folder + "/tls.key", made.key));
  SLUICE_TRY(replace_file(certificate, made.certificate));
  SLUICE_TRY(replace_file(ca, authority.certificate));
  return true;
}

}  // namespace sluice::control
