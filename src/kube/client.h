// A client of the Kubernetes API server: calls, and streams of watch events, over HTTP/1.1. JSON in
// and out; what we read of it has types (control/kube).
//
// Belongs to one io_context with one thread; its coroutines run there. Calls share kept
// connections. It keeps to a rate of its own, and to Retry-After. Credentials are read again when
// their file changes.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/beast/http/verb.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/result.h"
#include "kube/config.h"

namespace sluice::kube {

namespace asio = boost::asio;
using boost::beast::http::verb;

inline constexpr const char* kJson = "application/json";
inline constexpr const char* kMergePatch = "application/merge-patch+json";
inline constexpr const char* kJsonPatch = "application/json-patch+json";
inline constexpr const char* kApply = "application/apply-patch+yaml";  // server-side; JSON is YAML

// Not an aggregate, and made before the co_await where it needs a condition: GCC 12 destroys some
// temporaries of a co_await twice.
struct Call {
  explicit Call(std::string get) : target(std::move(get)) {}
  Call(verb m, std::string t, nlohmann::json b = nullptr, std::string type = kJson)
      : method(m), target(std::move(t)), body(std::move(b)), content_type(std::move(type)) {}

  verb method = verb::get;
  std::string target;  // "/api/v1/namespaces/default/pods?limit=5"
  nlohmann::json body = nullptr;
  std::string content_type = kJson;
};

struct Answer {
  int status = 0;
  nlohmann::json body;
};

struct ClientLimits {
  double calls_a_second = 100;  // on average, streams left aside
  int burst = 200;
  Nanos timeout = Seconds(15);  // of one call
  int tries = 4;                // of a call that is answered 429, or 503 with Retry-After
};

class Client {
 public:
  // kInvalid: the credentials are none.
  static Result<std::unique_ptr<Client>> make(asio::io_context& io, Config config,
                                              ClientLimits limits = {});
  ~Client();  // REQUIRES: its coroutines have ended, or its io_context does not run any more
  Client(const Client&) = delete;

  // Returns any answer, a 2xx with an object; kUnavailable or kTimeout if there is none.
  asio::awaitable<Result<Answer>> send(Call call);
  // Returns the body of a 2xx; any other is an Error with the server's message: 404 kNotFound, 409
  // kConflict, 422 and 400 kInvalid, 401 and 403 kDenied, 429 kExhausted.
  asio::awaitable<Result<nlohmann::json>> call(Call call);

  // Calls `on_line` with each line of the answer, until the server ends it; then returns its
  // status. Another status than 200 has its message as the only line.
  asio::awaitable<Result<int>> stream(std::string target,
                                      std::function<void(std::string_view line)> on_line);

  asio::io_context& io() const;
  const Config& config() const;
  uint64_t calls() const;  // sent so far, streams too; any thread

 private:
  struct State;
  explicit Client(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Of a status that is no 2xx.
ErrorKind error_kind(int status);
// What a Status object says; else the text itself.
std::string message_of(const nlohmann::json& body);

}  // namespace sluice::kube
