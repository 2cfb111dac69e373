#include "bench/gateway/upstream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <unordered_map>

#include "base/check.h"

namespace sluice::bench {
namespace {

struct Peer {
  std::string head;   // as far as received
  uint64_t left = 0;  // of the body
  uint64_t sum = 0;
  bool verify = false;
};

// Returns the value of a header field, or nothing; good enough for the known proxies.
std::string_view field(std::string_view head, std::string_view name) {
  for (size_t at = head.find("\r\n"); at + 2 < head.size(); at = head.find("\r\n", at + 2)) {
    const std::string_view line = head.substr(at + 2, head.find("\r\n", at + 2) - at - 2);
    if (line.size() > name.size() && line[name.size()] == ':' &&
        ::strncasecmp(line.data(), name.data(), name.size()) == 0)
      return line.substr(std::min(line.size(), name.size() + 2));
  }
  return {};
}

void answer(int fd, const Peer& peer) {
  std::string body = "sum=" + std::to_string(peer.sum) + " ";
  body.resize(1024, '.');
  const std::string text =
      "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1024\r\n\r\n" + body;
  // A peer that left is noticed when it is read from.
  [[maybe_unused]] const ssize_t sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
}

// Takes the read bytes; answers each whole request.
void take(int fd, Peer& peer, std::string_view bytes, std::atomic<uint64_t>& answered) {
  while (!bytes.empty()) {
    if (peer.left == 0) {
      const size_t had = peer.head.size();
      peer.head += bytes;
      const size_t end = peer.head.find("\r\n\r\n");
      if (end == std::string::npos) return;
      bytes.remove_prefix(end + 4 - had);
      peer.head.resize(end + 4);
      peer.left =
          std::strtoull(std::string(field(peer.head, "Content-Length")).c_str(), nullptr, 10);
      peer.verify = field(peer.head, "X-Verify") == "1";
      peer.sum = 0;
      peer.head.clear();
    }
    const std::string_view body = bytes.substr(0, peer.left);
    if (peer.verify) peer.sum = checksum(peer.sum, body);
    peer.left -= body.size();
    bytes.remove_prefix(body.size());
    if (peer.left > 0) return;
    answered.fetch_add(1, std::memory_order_relaxed);
    answer(fd, peer);
  }
}

}  // namespace

void serve_upstream(int listening, std::atomic<uint64_t>& answered) {
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  const auto watch = [&](int fd) {
    epoll_event e{.events = EPOLLIN, .data = {.fd = fd}};
    SLUICE_CHECK(::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) == 0, "epoll_ctl");
  };
  watch(listening);
  std::unordered_map<int, Peer> peers;
  std::string buffer(256 * 1024, '\0');
  for (;;) {
    epoll_event events[64];
    const int n = ::epoll_wait(epoll, events, 64, -1);
    for (int i = 0; i < n; ++i) {
      const int fd = events[i].data.fd;
      if (fd == listening) {
        const int peer = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
        if (peer < 0) continue;
        const int on = 1;
        ::setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        watch(peer);
        peers[peer] = {};
        continue;
      }
      const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got > 0) take(fd, peers[fd], {buffer.data(), static_cast<size_t>(got)}, answered);
      if (got == 0 || (got < 0 && errno != EAGAIN)) {
        peers.erase(fd);
        ::close(fd);
      }
    }
  }
}

}  // namespace sluice::bench
