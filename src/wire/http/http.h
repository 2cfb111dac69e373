// HTTP/1.1 between our own processes and their users: a small server on coroutines, a blocking
// client. For the control plane and the model server; the gateway's data path has a leaner loop
// (docs/design/gateway.md).
//
// Threads: a server belongs to its io_context, which one thread runs; its handler runs there. The
// client blocks its caller and shares nothing.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "wire/http/endpoint.h"
#include "wire/http/tls.h"
#include "wire/json/json.h"

namespace sluice::wire {

namespace asio = boost::asio;
namespace http = boost::beast::http;

using HttpHead = http::request_header<>;
using HttpRequest = http::request<http::string_body>;
using HttpResponse = http::response<http::string_body>;

// ---- messages --------------------------------------------------------------------------------

// A target's parts, percent-decoded: "/v1/a%20b?x=1" → {"v1", "a b"}, {{"x", "1"}}.
struct Target {
  std::vector<std::string> path;
  std::vector<std::pair<std::string, std::string>> query;

  std::string get(std::string_view key, std::string otherwise = "") const;
};
Result<Target> parse_target(std::string_view target);

HttpResponse json_response(const nlohmann::json& body, int status = 200);
HttpResponse text_response(std::string body,
                           std::string_view content_type = "text/plain; charset=utf-8");
HttpResponse error_response(int status, std::string_view message);  // {"error": message}
HttpResponse error_response(const Error&);                          // status by kind
int http_status(ErrorKind);
ErrorKind error_kind(int http_status);

// ---- server ----------------------------------------------------------------------------------

// The limits of one server. The defaults suit the control plane, whose messages are small.
struct HttpLimits {
  size_t header_bytes = 32 * 1024;
  size_t body_bytes = 4 * 1024 * 1024;     // of one request
  size_t connections = 128;                // open at once
  size_t memory_bytes = 64 * 1024 * 1024;  // bodies and untaken answers of all connections
  Nanos gap{0};                            // between connections, on average; others wait
  Nanos idle = Seconds(75);                // until the next request's head has arrived
  Nanos request = Seconds(10);             // a body may take to arrive
  Nanos answer = Seconds(10);              // an answer may stay untaken
};

// May suspend. A thrown exception becomes a 500; logging it is the handler's task.
using HttpHandler = std::function<asio::awaitable<HttpResponse>(HttpRequest)>;

// Decides on a request by its head, before its body is read. A response refuses the request.
using HttpAdmission = std::function<std::optional<HttpResponse>(const HttpHead&)>;

// Connections take turns, one request each. The next request of a connection is read when its last
// answer has been taken.
//
// At a limit of `connections` or `memory_bytes` the idlest connection is closed: the one that has
// waited longest for the same thing (a request, a body, or its answer to be taken). A connection
// whose request is in the handler stays; while all are, new ones wait in the socket's backlog.
class HttpServer {
 public:
  // `listening` accepts already (TCP or unix). Starts at once. One thread runs `io`.
  HttpServer(asio::io_context& io, Fd listening, HttpHandler handler, HttpLimits limits = {},
             HttpAdmission admission = {});
  ~HttpServer();  // stop()s without waiting; the io_context must outlive the connections
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Refuses new connections and closes those without a request. Finishes requests in hand, and
  // those that have arrived unread, even (on a unix socket) on connections that wait to be
  // accepted. Then calls `idle` on the io_context.
  void drain(std::function<void()> idle);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// ---- client ----------------------------------------------------------------------------------

// One connection, opened when needed and again when the server closed it between requests.
class HttpClient {
 public:
  explicit HttpClient(Endpoint server, Nanos timeout = Seconds(30));
  // Over TLS. `server_name`: for which the server's certificate must be; empty: its host.
  HttpClient(Endpoint server, Nanos timeout, TlsContext tls, std::string server_name = "");
  ~HttpClient();
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;

  void set_token(std::string bearer);

  // Returns kUnavailable if no server listens or the connection broke, or kTimeout. Any status is a
  // response.
  Result<HttpResponse> send(HttpRequest request);
  Result<HttpResponse> call(http::verb verb, std::string_view target, std::string body = "",
                            std::string_view content_type = "application/json");

  // 2xx: the parsed body (null when empty). Otherwise the server's {"error"} as an Error.
  Result<nlohmann::json> json(http::verb verb, std::string_view target,
                              const nlohmann::json& body = nullptr);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::wire
