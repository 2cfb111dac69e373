// A server on a thread of its own, and clients of it that send and receive bytes. For tests only.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "tests/support/folder.h"
#include "wire/http/http.h"

namespace sluice::wire {

// A server on a thread of its own, and its address.
class Serving {
 public:
  explicit Serving(HttpHandler handler, HttpLimits limits = {}, HttpAdmission admission = {}) {
    endpoint.path = folder_.path + "/s";
    Fd fd = std::move(*listen_on(endpoint));
    server_ = std::make_unique<HttpServer>(io_, std::move(fd), std::move(handler), limits,
                                           std::move(admission));
    thread_ = std::thread([this] { io_.run(); });
  }
  ~Serving() {
    asio::post(io_, [this] {
      server_.reset();
      io_.stop();
    });
    thread_.join();
  }

  // Runs `meanwhile` while the server's thread stands still, then `next` on that thread before the
  // server has seen any of it.
  void while_it_stands(
      const std::function<void()>& meanwhile, const std::function<void()>& next = [] {}) {
    std::promise<void> stopped, happened, gone_on;
    asio::post(io_, [&] {
      stopped.set_value();
      happened.get_future().wait();
      next();
      gone_on.set_value();
    });
    stopped.get_future().wait();
    meanwhile();
    happened.set_value();
    gone_on.get_future().wait();
  }
  // Drains after `meanwhile`, of which the server has seen nothing. Returns when it is idle.
  void drain_after(const std::function<void()>& meanwhile) {
    std::promise<void> idle;
    while_it_stands(meanwhile, [&] { server_->drain([&] { idle.set_value(); }); });
    idle.get_future().wait();
  }

  Endpoint endpoint;

 private:
  const TemporaryFolder folder_;
  asio::io_context io_;
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

inline asio::awaitable<HttpResponse> echo(HttpRequest request) {
  co_return json_response({{"method", std::string(request.method_string())},
                           {"target", std::string(request.target())},
                           {"size", request.body().size()}});
}

// A connection, byte by byte.
class Raw {
 public:
  explicit Raw(const Endpoint& at) : fd_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    at.path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  void send(std::string_view bytes) {
    EXPECT_EQ(::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  std::string receive() {
    char chunk[4096];
    const ssize_t n = ::recv(fd_.get(), chunk, sizeof(chunk), 0);
    return {chunk, static_cast<size_t>(std::max<ssize_t>(n, 0))};
  }
  std::string receive_all() {
    std::string all;
    for (std::string part = receive(); !part.empty(); part = receive()) all += part;
    return all;
  }
  void end() { ::shutdown(fd_.get(), SHUT_WR); }

 private:
  Fd fd_;
};

inline std::string raw(const Endpoint& at, std::string_view bytes) {
  Raw connection(at);
  connection.send(bytes);
  connection.end();
  return connection.receive_all();
}

}  // namespace sluice::wire
