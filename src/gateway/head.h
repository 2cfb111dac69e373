// Request and response heads: what may pass, where it goes, and how it is passed on. Pure functions
// over Beast's fields. The parser has refused what is no HTTP; here goes what would be read
// differently by the next hop (request smuggling), and hop-by-hop fields (RFC 9110 §7.6.1).
#pragma once

#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/verb.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice::gateway {

namespace http = boost::beast::http;
using RequestHead = http::header<true, http::fields>;
using ResponseHead = http::header<false, http::fields>;

// kInvalid: answer 400 and close. Refuses Content-Length beside Transfer-Encoding, differing
// Content-Lengths, any coding but a single "chunked", and Transfer-Encoding in HTTP/1.0.
Result<void> check_framing(const RequestHead& head);

// "/v2/models/NAME[/versions/N][/…]" taken apart; nothing for other paths.
struct ModelPath {
  std::string_view served;
  int revision = 0;       // 0: not said
  std::string_view rest;  // "infer", "ready", …, or empty
};
std::optional<ModelPath> model_path(std::string_view target);

// The bearer token of an Authorization field; empty when there is none.
std::string_view bearer(const RequestHead& head);

struct Forwarded {
  std::string request_id;  // set when the client sent none
  std::string traceparent;
  int more = 0;                            // Sluice-More; 0: none
  std::optional<uint64_t> content_length;  // of what follows; nothing with `chunked`
  bool chunked = false;
};
// The head as the instance gets it.
std::string request_head(const RequestHead& head, const Forwarded& with);

// The head as the client gets it: the instance's, framed for this client.
std::string response_head(const ResponseHead& head, std::string_view request_id,
                          std::optional<uint64_t> content_length, bool chunked, bool keep_alive);

// A whole small answer of the gateway's own.
std::string own_response(int status, std::string_view body, std::string_view request_id,
                         bool keep_alive, std::string_view extra = "",
                         std::string_view content_type = "application/json",
                         bool head_only = false);

// May the body of such an answer be anything but empty? (RFC 9112 §6.3)
bool has_body(http::verb method, unsigned status);

}  // namespace sluice::gateway
