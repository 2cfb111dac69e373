// Request and response heads: what may pass, where it goes, and how it is passed on. Pure
// functions. The parser has refused malformed HTTP. This refuses what the next hop could read
// differently (request smuggling), and removes hop-by-hop fields (RFC 9110 §7.6.1).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "gateway/message.h"

namespace sluice::gateway {

// Returns kInvalid for: answer 400 and close. Refuses Content-Length beside Transfer-Encoding,
// differing Content-Lengths, any coding but a single "chunked", Transfer-Encoding in HTTP/1.0, two
// Hosts, none in HTTP/1.1.
Result<void> check_framing(const Head& head);

// Returns what is wrong with a request whose parser ended in this fault after these fields.
std::string describe_fault(error_code fault, const Head& so_far);

// The target of a request: "/path", or "http://authority/path" taken apart (RFC 9112 §3.2.2).
struct Target {
  std::string_view authority, path;
};
Target target_of(const Head& request);

// Returns whether it asks for another protocol on this connection, e.g. a WebSocket. An upgrade to
// HTTP/2 does not count: a client that offers it goes on in HTTP/1.1 as well. Nor does one in
// HTTP/1.0, which has no upgrades (RFC 9110 §7.8).
bool wants_upgrade(const Head& request);

// "/v2/models/NAME[/versions/N][/…]" taken apart; nothing for other paths, and for a path that is
// not in its canonical form ("%", "//", "/./", a "/" at its end).
struct ModelPath {
  std::string_view served;
  int revision = 0;       // 0: not given
  std::string_view rest;  // "infer", "ready", …, or empty
};
std::optional<ModelPath> model_path(std::string_view target);

// "/functions/NAME/…" taken apart; nothing for other paths, and for a path that a program could
// read as one elsewhere: a "." or ".." between slashes, a backslash, or an escaped one of these.
struct FunctionPath {
  std::string_view served, prefix;  // "NAME", "/functions/NAME"
  std::string_view rest;            // "/…?…": what the program is asked
};
std::optional<FunctionPath> function_path(std::string_view target);

// Returns whether a request may be sent again although an instance may have begun to answer it (RFC
// 9110 §9.2.2).
bool is_idempotent(http::verb method);

// Returns the bearer token of an Authorization field; empty if there is none.
std::string_view bearer(const Head& head);

// How a body's end is marked.
struct Framing {
  bool chunked = false;
  std::optional<uint64_t> length;  // neither: no body, or until the connection closes
};

struct Forwarded {
  std::string_view request_id;  // set when the client sent none
  std::string_view traceparent;
  int more = 0;                    // Sluice-More; 0: none
  std::optional<Nanos> time_left;  // Sluice-Time-Left; none: no inference
  std::string_view versions;       // Sluice-Versions; empty: none
  size_t body_limit = 0;           // Sluice-Body-Limit, where the body is compressed
  bool token_is_ours = true;       // the token was for the gateway: the instance must not see it
  Framing framing;
  // To a program that is asked any path: that path, and the values of the X-Forwarded fields, in
  // place of a client's own. Empty: the path is the client's.
  std::string_view path{}, prefix{}, client{}, protocol{};
  bool once = false;  // it may not be sent again
};
// Appends the head for the instance.
void put_request_head(std::string& out, const Head& head, const Forwarded& with);

// How the client's connection goes on.
enum class Persistence { kKeep, kKeepSaid, kClose };  // kKeepSaid: HTTP/1.0 needs the header

// Appends the head for the client: the instance's, framed for this client.
void put_response_head(std::string& out, const Head& head, std::string_view request_id,
                       const Framing& framing, Persistence persistence);

// A whole small answer of the gateway's own.
struct OwnAnswer {
  int status = 200;
  std::string_view body;
  std::string_view content_type = "application/json";
  std::string_view extra;  // whole lines
};
void put_own_answer(std::string& out, const OwnAnswer& answer, std::string_view request_id,
                    Persistence persistence, bool head_only);

// Returns whether the body of such an answer may be non-empty (RFC 9112 §6.3).
bool has_body(http::verb method, unsigned status);

}  // namespace sluice::gateway
