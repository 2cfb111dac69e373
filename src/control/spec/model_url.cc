#include "control/spec/model_url.h"

#include <algorithm>
#include <charconv>

namespace sluice::control {
namespace {

constexpr std::string_view kHttp = "http://", kHttps = "https://";
constexpr uint16_t kHttpPort = 80, kHttpsPort = 443;

Error no_url(const std::string& text, const std::string& why) {
  return {ErrorKind::kInvalid, "\"" + text + "\" " + why};
}

// Where the path begins, behind host and port.
size_t target_at(std::string_view url) {
  const size_t host = url.find("://") + 3;
  return std::min(url.find_first_of("/?#", host), url.size());
}

}  // namespace

bool is_url(std::string_view path) {
  return path.starts_with(kHttp) || path.starts_with(kHttps);
}

Result<ModelUrl> parse_model_url(const std::string& text) {
  if (!is_url(text)) return no_url(text, "is neither http:// nor https://");
  if (!std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; }))
    return no_url(text, "has spaces or other characters that a URL writes as %20");
  if (text.find('#') != text.npos) return no_url(text, "names a part of a file, by #");
  ModelUrl url{.tls = text.starts_with(kHttps)};
  url.port = url.tls ? kHttpsPort : kHttpPort;
  const size_t begin = url.tls ? kHttps.size() : kHttp.size(), end = target_at(text);
  url.host = text.substr(begin, end - begin);
  url.target = text.substr(end);
  if (url.host.find('@') != url.host.npos)
    return no_url(text, "has a user or a password, and function files are shown to others");
  if (const size_t colon = url.host.rfind(':'); colon != url.host.npos && url.host.back() != ']') {
    const std::string port = url.host.substr(colon + 1);
    const auto [rest, fault] = std::from_chars(port.data(), port.data() + port.size(), url.port);
    if (fault != std::errc() || rest != port.data() + port.size() || url.port == 0)
      return no_url(text, "has no port from 1 to 65535 behind its colon");
    url.host.resize(colon);
  }
  if (url.host.starts_with('[') && url.host.ends_with(']'))
    url.host = url.host.substr(1, url.host.size() - 2);
  if (url.host.empty()) return no_url(text, "names no host");
  if (url.target.size() < 2 || url.target[0] != '/') return no_url(text, "names no file");
  return url;
}

std::string sidecar_url(const std::string& url) {
  const size_t query = std::min(url.find('?'), url.size());
  const size_t name = url.rfind('/', query), dot = url.rfind('.', query - 1);
  const size_t end = dot == url.npos || dot < name ? query : dot;
  return url.substr(0, end) + ".json" + url.substr(query);
}

Result<std::string> redirected(const std::string& url, const std::string& location) {
  const std::string scheme = url.substr(0, url.find("://") + 3);
  if (location.starts_with("/") && !location.starts_with("//"))
    return url.substr(0, target_at(url)) + location;
  if (!location.starts_with(scheme))
    return no_url(url, "redirects to \"" + location + "\", which is no " + scheme + " URL");
  return location;
}

}  // namespace sluice::control
