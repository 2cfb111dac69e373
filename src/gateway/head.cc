#include "gateway/head.h"

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/status.hpp>
#include <charconv>

#include "wire/json/model_statistics.h"

namespace sluice::gateway {
namespace {

using boost::beast::iequals;

bool hop_by_hop(http::field id) {
  switch (id) {
    case http::field::connection:
    case http::field::keep_alive:
    case http::field::proxy_connection:
    case http::field::proxy_authenticate:
    case http::field::proxy_authorization:
    case http::field::te:
    case http::field::trailer:
    case http::field::transfer_encoding:
    case http::field::upgrade:
    case http::field::content_length:  // framed anew
    case http::field::expect:
      return true;
    default:
      return false;
  }
}

// Connection's options that name fields for this hop only; most messages have none.
class NamedInConnection {
 public:
  explicit NamedInConnection(const Head& head) {
    for (size_t i = 0; i < head.size(); ++i) {
      if (head[i].id != http::field::connection) continue;
      for (const auto& token : http::token_list(head[i].value))
        if (!iequals(token, "close") && !iequals(token, "keep-alive"))
          names_.emplace_back(token.data(), token.size());
    }
  }
  bool contains(std::string_view name) const {
    for (const std::string_view named : names_)
      if (iequals(named, name)) return true;
    return false;
  }

 private:
  std::vector<std::string_view> names_;
};

// The gateway and the instance must read a path alike. A path that can be written in another way,
// with escapes, or with segments that are empty or dots, is refused.
bool canonical(std::string_view path) {
  if (path.find('%') != path.npos || path.find('\\') != path.npos) return false;
  for (size_t at = 1; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view segment = path.substr(at, end - at);
    if (segment.empty() || segment == "." || segment == "..") return false;
    at = end + 1;
  }
  return true;
}

// A program may decode a path before it takes it apart. Empty segments are harmless there.
bool leads_elsewhere(std::string_view path) {
  std::string decoded;
  for (size_t at = 0; at < path.size(); ++at) {
    const std::string_view escape = path.substr(at, 3);
    char c = path[at];
    for (const auto& [text, meant] :
         {std::pair("%2e", '.'), std::pair("%2f", '\\'), std::pair("%5c", '\\')})
      if (iequals(escape, text)) {
        c = meant;
        at += 2;
      }
    if (c == '\\') return true;
    decoded += c;
  }
  for (size_t at = 1; at <= decoded.size();) {
    const size_t end = std::min(decoded.find('/', at), decoded.size());
    const std::string_view segment = std::string_view(decoded).substr(at, end - at);
    if (segment == "." || segment == "..") return true;
    at = end + 1;
  }
  return false;
}

// In CGI's environment "_" and "-" are one.
bool is_forwarded(std::string_view name) {
  constexpr std::string_view kPrefix = "X-Forwarded-";
  std::string beginning(name.substr(0, kPrefix.size()));
  std::ranges::replace(beginning, '_', '-');
  return iequals(beginning, kPrefix) || iequals(name, "Forwarded");
}

// Fields between the gateway and its instances: a client may not set them, and has no use for an
// answer's report.
constexpr std::string_view kOurs[] = {"Sluice-More", "Sluice-Time-Left", "Sluice-Versions",
                                      "Sluice-Body-Limit", wire::kComputeHeader};
bool ours(std::string_view name) {
  return std::ranges::any_of(kOurs, [&](std::string_view own) { return iequals(name, own); });
}

constexpr char kTwoFramings[] = "Content-Length: not allowed beside Transfer-Encoding";

void add(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

void add(std::string& out, std::string_view name, uint64_t value) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  add(out, name, std::string_view(digits, static_cast<size_t>(end - digits)));
}

void add(std::string& out, const Framing& framing) {
  if (framing.chunked)
    add(out, "Transfer-Encoding", "chunked");
  else if (framing.length)
    add(out, "Content-Length", *framing.length);
}

void add(std::string& out, Persistence persistence) {
  if (persistence == Persistence::kClose) add(out, "Connection", "close");
  if (persistence == Persistence::kKeepSaid) add(out, "Connection", "keep-alive");
}

void add_status_line(std::string& out, unsigned status, std::string_view reason) {
  out.append("HTTP/1.1 ");
  for (const unsigned digit : {status / 100, status / 10 % 10, status % 10})
    out += static_cast<char>('0' + digit);
  out += ' ';
  if (reason.empty()) {
    const auto usual = http::obsolete_reason(static_cast<http::status>(status));
    reason = {usual.data(), usual.size()};
  }
  out.append(reason).append("\r\n");
}

}  // namespace

// The parser refuses the second of two fields that contradict each other, and names that one alone.
std::string describe_fault(error_code fault, const Head& so_far) {
  const bool in_length = fault == http::error::bad_content_length;
  const bool in_coding = fault == http::error::bad_transfer_encoding;
  if ((in_length && so_far.find(http::field::transfer_encoding)) ||
      (in_coding && so_far.find(http::field::content_length)))
    return kTwoFramings;
  if (in_length) return "Content-Length: must be one whole number";
  if (fault == http::error::multiple_content_length)
    return "Content-Length: given twice and different";
  if (in_coding) return "Transfer-Encoding: given twice";
  return "HTTP: " + fault.message();
}

Result<void> check_framing(const Head& head) {
  const auto invalid = [](std::string why) { return Error{ErrorKind::kInvalid, std::move(why)}; };
  std::optional<std::string_view> length, coding, host;
  for (size_t i = 0; i < head.size(); ++i) {
    const auto [id, name, value] = head[i];
    if (id == http::field::content_length) {
      if (length && *length != value) return invalid("Content-Length: given twice and different");
      length = value;
    } else if (id == http::field::transfer_encoding) {
      if (coding) return invalid("Transfer-Encoding: given twice");
      coding = value;
    } else if (id == http::field::host) {
      if (host) return invalid("Host: given twice");
      host = value;
    }
  }
  if (!host && head.version >= 11) return invalid("Host: missing");
  if (!coding) return {};
  if (length) return invalid(kTwoFramings);
  if (head.version < 11) return invalid("Transfer-Encoding: not allowed in HTTP/1.0");
  if (!iequals(*coding, "chunked"))
    return invalid("Transfer-Encoding: '" + std::string(*coding) + "': only chunked is allowed");
  return {};
}

Target target_of(const Head& request) {
  const std::string_view target = request.target();
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!iequals(target.substr(0, scheme.size()), scheme)) continue;
    const std::string_view rest = target.substr(scheme.size());
    const size_t path = rest.find_first_of("/?");
    if (path == rest.npos) return {rest, "/"};
    return {rest.substr(0, path), rest.substr(path)};
  }
  return {{}, target};
}

bool wants_upgrade(const Head& request) {
  const auto to = request.find(http::field::upgrade);
  return to && request.version >= 11 && !iequals(*to, "h2c");
}

std::optional<ModelPath> model_path(std::string_view target) {
  constexpr std::string_view kPrefix = "/v2/models/";
  target = target.substr(0, target.find('?'));
  if (!target.starts_with(kPrefix) || !canonical(target)) return std::nullopt;
  target.remove_prefix(kPrefix.size());
  ModelPath path;
  size_t slash = target.find('/');
  path.served = target.substr(0, slash);
  target = slash == target.npos ? "" : target.substr(slash + 1);
  if (target.starts_with("versions/")) {
    target.remove_prefix(9);
    slash = target.find('/');
    const std::string_view number = target.substr(0, slash);
    const auto [end, fault] =
        std::from_chars(number.data(), number.data() + number.size(), path.revision);
    if (fault != std::errc() || end != number.data() + number.size() || path.revision <= 0)
      return std::nullopt;
    target = slash == target.npos ? "" : target.substr(slash + 1);
  }
  path.rest = target;
  if (path.served.empty()) return std::nullopt;
  return path;
}

std::optional<FunctionPath> function_path(std::string_view target) {
  constexpr std::string_view kPrefix = "/functions/";
  const std::string_view path = target.substr(0, target.find('?'));
  if (!path.starts_with(kPrefix) || leads_elsewhere(path)) return std::nullopt;
  const size_t end = std::min(path.find('/', kPrefix.size()), path.size());
  FunctionPath found{.served = path.substr(kPrefix.size(), end - kPrefix.size()),
                     .prefix = path.substr(0, end),
                     .rest = end < path.size() ? target.substr(end) : "/"};
  if (found.served.empty() || (end == path.size() && end < target.size())) return std::nullopt;
  return found;
}

bool is_idempotent(http::verb method) {
  switch (method) {
    case http::verb::get:
    case http::verb::head:
    case http::verb::options:
    case http::verb::put:
    case http::verb::delete_:
    case http::verb::trace:
      return true;
    default:
      return false;
  }
}

std::string_view bearer(const Head& head) {
  const std::string_view value = head.find(http::field::authorization).value_or("");
  constexpr std::string_view kScheme = "Bearer ";
  if (value.size() <= kScheme.size() || !iequals(value.substr(0, kScheme.size()), kScheme))
    return {};
  return value.substr(kScheme.size());
}

void put_request_head(std::string& out, const Head& head, const Forwarded& with) {
  const Target target = target_of(head);
  const bool rewritten = !with.path.empty();
  out.append(head.method()).append(" ").append(rewritten ? with.path : target.path);
  out.append(" HTTP/1.1\r\n");
  const bool absolute = !target.authority.empty();
  const std::string_view host =
      absolute ? target.authority : head.find(http::field::host).value_or("");
  add(out, "Host", host);
  const NamedInConnection here(head);
  for (size_t i = 0; i < head.size(); ++i) {
    const auto [id, name, value] = head[i];
    if (hop_by_hop(id) || id == http::field::host || here.contains(name)) continue;
    if (id == http::field::authorization && with.token_is_ours) continue;
    if (ours(name) || (rewritten && is_forwarded(name))) continue;
    add(out, name, value);
  }
  if (rewritten) {
    add(out, "X-Forwarded-Host", host);
    add(out, "X-Forwarded-Proto", with.protocol);
    add(out, "X-Forwarded-Prefix", with.prefix);
    if (!with.client.empty()) add(out, "X-Forwarded-For", with.client);
  }
  if (!with.request_id.empty()) add(out, "X-Request-Id", with.request_id);
  if (!with.traceparent.empty()) add(out, "traceparent", with.traceparent);
  if (with.more > 0) add(out, "Sluice-More", static_cast<uint64_t>(with.more));
  if (with.time_left)
    add(out, "Sluice-Time-Left",
        static_cast<uint64_t>(std::max<int64_t>(*with.time_left / Micros(1), 0)));
  if (head.find(http::field::content_encoding)) add(out, "Sluice-Body-Limit", with.body_limit);
  if (!with.versions.empty()) add(out, "Sluice-Versions", with.versions);
  if (with.once) add(out, "Connection", "close");
  add(out, with.framing);
  out += "\r\n";
}

void put_response_head(std::string& out, const Head& head, std::string_view request_id,
                       const Framing& framing, Persistence persistence) {
  add_status_line(out, head.status, head.reason());
  const NamedInConnection here(head);
  for (size_t i = 0; i < head.size(); ++i) {
    const auto [id, name, value] = head[i];
    if (!hop_by_hop(id) && !here.contains(name) && !ours(name)) add(out, name, value);
  }
  if (!head.find("X-Request-Id")) add(out, "X-Request-Id", request_id);
  add(out, framing);
  add(out, persistence);
  out += "\r\n";
}

void put_own_answer(std::string& out, const OwnAnswer& answer, std::string_view request_id,
                    Persistence persistence, bool head_only) {
  add_status_line(out, static_cast<unsigned>(answer.status), "");
  add(out, "Content-Type", answer.content_type);
  add(out, "Content-Length", answer.body.size());
  if (!request_id.empty()) add(out, "X-Request-Id", request_id);
  out.append(answer.extra);
  add(out, persistence);
  out += "\r\n";
  if (!head_only) out.append(answer.body);
}

bool has_body(http::verb method, unsigned status) {
  return method != http::verb::head && status >= 200 && status != 204 && status != 304;
}

}  // namespace sluice::gateway
