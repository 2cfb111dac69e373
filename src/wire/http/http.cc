#include "wire/http/http.h"

namespace sluice::wire {
namespace {

int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Result<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      const int high = i + 2 < text.size() ? hex(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex(text[i + 2]) : -1;
      if (high < 0 || low < 0)
        return Error{ErrorKind::kInvalid, "target: broken percent escape in " + std::string(text)};
      out.push_back(static_cast<char>(high * 16 + low));
      i += 2;
    } else {
      out.push_back(plus_is_space && text[i] == '+' ? ' ' : text[i]);
    }
  }
  return out;
}

}  // namespace

std::string Target::get(std::string_view key, std::string otherwise) const {
  for (const auto& [name, value] : query)
    if (name == key) return value;
  return otherwise;
}

Result<Target> parse_target(std::string_view target) {
  Target out;
  const size_t mark = target.find('?');
  std::string_view path = target.substr(0, mark);
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (!part.empty()) {
      SLUICE_ASSIGN(decoded, percent_decode(part, false));
      out.path.push_back(std::move(decoded));
    }
    path = slash == path.npos ? "" : path.substr(slash + 1);
  }
  std::string_view query = mark == target.npos ? "" : target.substr(mark + 1);
  while (!query.empty()) {
    const size_t amp = query.find('&');
    const std::string_view pair = query.substr(0, amp);
    const size_t equals = pair.find('=');
    SLUICE_ASSIGN(key, percent_decode(pair.substr(0, equals), true));
    SLUICE_ASSIGN(value, percent_decode(equals == pair.npos ? "" : pair.substr(equals + 1), true));
    if (!key.empty()) out.query.emplace_back(std::move(key), std::move(value));
    query = amp == query.npos ? "" : query.substr(amp + 1);
  }
  return out;
}

HttpResponse text_response(std::string body, std::string_view content_type) {
  HttpResponse r{http::status::ok, 11};
  r.set(http::field::content_type, content_type);
  r.body() = std::move(body);
  return r;
}

HttpResponse json_response(const nlohmann::json& body, int status) {
  // Replaces invalid UTF-8: an odd name must not make an answer fail.
  HttpResponse r = text_response(
      body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), "application/json");
  r.result(static_cast<unsigned>(status));
  return r;
}

HttpResponse error_response(int status, std::string_view message) {
  return json_response({{"error", std::string(message)}}, status);
}

HttpResponse error_response(const Error& e) {
  return error_response(http_status(e.kind), e.message);
}

int http_status(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalid:
      return 400;
    case ErrorKind::kDenied:
      return 403;
    case ErrorKind::kNotFound:
      return 404;
    case ErrorKind::kConflict:
      return 409;
    case ErrorKind::kExhausted:
      return 429;
    case ErrorKind::kUnavailable:
      return 503;
    case ErrorKind::kTimeout:
      return 504;
    case ErrorKind::kInternal:
      return 500;
  }
  return 500;
}

ErrorKind error_kind(int status) {
  switch (status) {
    case 401:
    case 403:
      return ErrorKind::kDenied;
    case 404:
      return ErrorKind::kNotFound;
    case 409:
      return ErrorKind::kConflict;
    case 429:
      return ErrorKind::kExhausted;
    case 502:
    case 503:
      return ErrorKind::kUnavailable;
    case 504:
      return ErrorKind::kTimeout;
    default:
      return status >= 400 && status < 500 ? ErrorKind::kInvalid : ErrorKind::kInternal;
  }
}

}  // namespace sluice::wire
