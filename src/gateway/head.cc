#include "gateway/head.h"

#include <boost/beast/core/string.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/status.hpp>
#include <charconv>

namespace sluice::gateway {
namespace {

using boost::beast::iequals;

std::string_view sv(boost::beast::string_view s) {
  return {s.data(), s.size()};
}

bool hop_by_hop(http::field name) {
  switch (name) {
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

// Named in Connection: meant for this hop alone.
bool named_in(std::string_view connection, std::string_view name) {
  if (connection.empty()) return false;
  for (const auto& token : http::token_list(connection))
    if (iequals(token, name)) return true;
  return false;
}

template <class Fields>
void pass_on(std::string& out, const Fields& fields, std::string_view connection) {
  for (const auto& field : fields) {
    if (hop_by_hop(field.name()) || named_in(connection, sv(field.name_string()))) continue;
    out.append(field.name_string().data(), field.name_string().size());
    out += ": ";
    out.append(field.value().data(), field.value().size());
    out += "\r\n";
  }
}

void add(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

}  // namespace

Result<void> check_framing(const RequestHead& head) {
  const auto invalid = [](std::string why) { return Error{ErrorKind::kInvalid, std::move(why)}; };
  const auto lengths = head.equal_range(http::field::content_length);
  const auto codings = head.equal_range(http::field::transfer_encoding);
  const bool coded = codings.first != codings.second;
  if (coded) {
    if (lengths.first != lengths.second)
      return invalid("Content-Length: not allowed beside Transfer-Encoding");
    if (head.version() < 11) return invalid("Transfer-Encoding: not allowed in HTTP/1.0");
    if (std::next(codings.first) != codings.second || !iequals(codings.first->value(), "chunked"))
      return invalid("Transfer-Encoding: '" + std::string(sv(codings.first->value())) +
                     "': only chunked is allowed");
  }
  for (auto it = lengths.first; it != lengths.second; ++it)
    if (it->value() != lengths.first->value())
      return invalid("Content-Length: given twice and different");
  return {};
}

std::optional<ModelPath> model_path(std::string_view target) {
  constexpr std::string_view kPrefix = "/v2/models/";
  if (!target.starts_with(kPrefix)) return std::nullopt;
  target = target.substr(kPrefix.size(), target.find('?') - kPrefix.size());
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

std::string_view bearer(const RequestHead& head) {
  const std::string_view value = sv(head[http::field::authorization]);
  constexpr std::string_view kScheme = "Bearer ";
  if (value.size() <= kScheme.size() || !iequals(value.substr(0, kScheme.size()), kScheme))
    return {};
  return value.substr(kScheme.size());
}

std::string request_head(const RequestHead& head, const Forwarded& with) {
  std::string out;
  out.reserve(512);
  out.append(sv(head.method_string()))
      .append(" ")
      .append(sv(head.target()))
      .append(" HTTP/1.1\r\n");
  pass_on(out, head, sv(head[http::field::connection]));
  if (!with.request_id.empty()) add(out, "X-Request-Id", with.request_id);
  if (!with.traceparent.empty()) add(out, "traceparent", with.traceparent);
  if (with.more > 0) add(out, "Sluice-More", std::to_string(with.more));
  if (with.chunked)
    add(out, "Transfer-Encoding", "chunked");
  else if (with.content_length)
    add(out, "Content-Length", std::to_string(*with.content_length));
  out += "\r\n";
  return out;
}

std::string response_head(const ResponseHead& head, std::string_view request_id,
                          std::optional<uint64_t> content_length, bool chunked, bool keep_alive) {
  std::string out;
  out.reserve(512);
  const std::string_view reason = sv(head.reason());
  out.append("HTTP/1.1 ").append(std::to_string(head.result_int())).append(" ");
  out.append(reason.empty() ? sv(http::obsolete_reason(head.result())) : reason).append("\r\n");
  pass_on(out, head, sv(head[http::field::connection]));
  if (!request_id.empty() && head.find("X-Request-Id") == head.end())
    add(out, "X-Request-Id", request_id);
  if (chunked)
    add(out, "Transfer-Encoding", "chunked");
  else if (content_length)
    add(out, "Content-Length", std::to_string(*content_length));
  if (!keep_alive) add(out, "Connection", "close");
  out += "\r\n";
  return out;
}

std::string own_response(int status, std::string_view body, std::string_view request_id,
                         bool keep_alive, std::string_view extra, std::string_view content_type,
                         bool head_only) {
  std::string out = "HTTP/1.1 " + std::to_string(status) + " ";
  out.append(sv(http::obsolete_reason(static_cast<http::status>(status)))).append("\r\n");
  add(out, "Content-Type", content_type);
  add(out, "Content-Length", std::to_string(body.size()));
  if (!request_id.empty()) add(out, "X-Request-Id", request_id);
  out.append(extra);
  if (!keep_alive) add(out, "Connection", "close");
  out += "\r\n";
  if (!head_only) out.append(body);
  return out;
}

bool has_body(http::verb method, unsigned status) {
  return method != http::verb::head && status >= 200 && status != 204 && status != 304;
}

}  // namespace sluice::gateway
