#include "tests/support/open_load.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/check.h"
#include "base/fd.h"
#include "base/random.h"

namespace sluice::bench {
namespace {

constexpr size_t kBodyBytes = 372;
constexpr Nanos kTick = Millis(10);
constexpr Time kNever = Time::max();

// Returns the value of a header field, or nothing.
std::string_view field(std::string_view head, std::string_view name) {
  for (size_t at = head.find("\r\n"); at + 2 < head.size(); at = head.find("\r\n", at + 2)) {
    const std::string_view line = head.substr(at + 2, head.find("\r\n", at + 2) - at - 2);
    if (line.size() > name.size() && line[name.size()] == ':' &&
        ::strncasecmp(line.data(), name.data(), name.size()) == 0)
      return line.substr(std::min(line.size(), name.size() + 2));
  }
  return {};
}

struct Connection {
  Fd fd;
  int request = -1;  // the index of its record; -1: idle
  const Question* question = nullptr;
  std::string out, in;
  size_t sent = 0, first_piece = 0;  // of `out`; the rest leaves after the pause
  bool kept = false;                 // has carried a request before
};

class Player {
 public:
  explicit Player(const OpenLoad& load)
      : load_(load),
        random_(load.seed),
        arrivals_(load.plan, {.kind = sim::Gaps::Kind::kGamma, .cv = 0.2}, load.seed),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    SLUICE_CHECK(epoll_.valid(), "epoll_create1");
  }

  std::vector<Asked> play() {
    start_ = clock_.now() + Millis(20);
    Time next = arrival();
    while (next != kNever || open_ > 0) {
      const Time now = clock_.now();
      if (load_.stop != nullptr && *load_.stop) next = kNever;
      for (; next <= now; next = arrival()) begin(next);
      send_second_pieces(now);
      if (now >= tick_at_) tick(now);
      Time wake = std::min(std::max(now, tick_at_), next);
      if (!pauses_.empty()) wake = std::min(wake, pauses_.front().first);
      wait(std::max(wake - now, Nanos(0)));
    }
    return std::move(records_);
  }

 private:
  Time arrival() {
    const std::optional<Nanos> next = arrivals_.next();
    return next.has_value() ? start_ + *next : kNever;
  }

  void begin(Time intended) {
    const int index = static_cast<int>(records_.size());
    const int path = index % static_cast<int>(load_.paths.size());
    const auto one_of = [this](int permille) {
      return random_.below(1000) < static_cast<uint64_t>(permille);
    };
    const bool half_closes = one_of(load_.half_closes), pauses = one_of(load_.in_two_pieces);
    const bool fresh = one_of(load_.fresh) || half_closes;
    const Question& question = load_.ask[random_.below(load_.ask.size())];
    records_.push_back({.intended = intended, .half_closed = half_closes, .path = path});
    ++open_;
    send_on(fresh ? nullptr : idle_one(), index, question, pauses);
  }

  void send_on(Connection* kept, int index, const Question& question, bool pauses) {
    Connection* c = kept != nullptr ? kept : connect();
    if (c == nullptr) return end(index, End::kBroken);
    c->request = index;
    c->question = &question;
    c->in.clear();
    c->sent = 0;
    c->out = "POST " + load_.paths[static_cast<size_t>(records_[static_cast<size_t>(index)].path)] +
             " HTTP/1.1\r\nHost: sluice\r\nContent-Type: application/json\r\nContent-Length: " +
             std::to_string(question.body.size()) + "\r\n\r\n" + question.body;
    c->first_piece = pauses ? c->out.size() - question.body.size() / 2 : c->out.size();
    push(*c);
  }

  Connection* idle_one() {
    if (idle_.empty()) return nullptr;
    Connection* c = idle_.back();
    idle_.pop_back();
    return c;
  }

  Connection* connect() {
    auto c = std::make_unique<Connection>();
    c->fd.reset(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_in at{
        .sin_family = AF_INET, .sin_port = htons(load_.port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    if (!c->fd.valid() ||
        (::connect(c->fd.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 &&
         errno != EINPROGRESS))
      return nullptr;
    const int on = 1;
    ::setsockopt(c->fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    epoll_event e{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.fd = c->fd.get()}};
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, c->fd.get(), &e) != 0) return nullptr;
    return (connections_[c->fd.get()] = std::move(c)).get();
  }

  // Sends as much as may leave now. A failure is left to the reader, which may find an answer.
  void push(Connection& c) {
    if (c.request < 0 || c.sent == c.out.size()) return;
    const size_t until = c.sent < c.first_piece ? c.first_piece : c.out.size();
    if (c.sent == c.first_piece && paused(c)) return;
    while (c.sent < until) {
      const ssize_t n = ::send(c.fd.get(), c.out.data() + c.sent, until - c.sent, MSG_NOSIGNAL);
      if (n < 0 && errno == EAGAIN) return;
      c.sent = n < 0 ? c.out.size() : c.sent + static_cast<size_t>(n);
    }
    if (c.sent == c.first_piece && c.sent < c.out.size())
      pauses_.emplace_back(clock_.now() + load_.pause, Pause{c.fd.get(), c.request});
    else if (records_[static_cast<size_t>(c.request)].half_closed)
      ::shutdown(c.fd.get(), SHUT_WR);
  }

  // A client that pauses within its body sends the rest before it reads an answer.
  struct Pause {
    int fd, request;
  };
  bool paused(const Connection& c) const {
    return std::ranges::any_of(pauses_, [&](const auto& p) {
      return p.second.fd == c.fd.get() && p.second.request == c.request;
    });
  }
  void send_second_pieces(Time now) {
    while (!pauses_.empty() && pauses_.front().first <= now) {
      const Pause p = pauses_.front().second;
      pauses_.pop_front();
      const auto found = connections_.find(p.fd);
      if (found == connections_.end() || found->second->request != p.request) continue;
      push(*found->second);
      read(*found->second);
    }
  }

  void wait(Nanos span) {
    epoll_event events[256];
    const timespec t{.tv_sec = span / Seconds(1), .tv_nsec = span % Seconds(1) / Nanos(1)};
    const int n = ::epoll_pwait2(epoll_.get(), events, 256, &t, nullptr);
    for (int i = 0; i < n; ++i) {
      const auto found = connections_.find(events[i].data.fd);
      if (found == connections_.end()) continue;
      Connection& c = *found->second;
      push(c);
      if (c.request < 0 || c.sent == c.out.size()) read(c);
    }
  }

  void read(Connection& c) {
    char part[16 * 1024];
    for (;;) {
      const ssize_t n = ::recv(c.fd.get(), part, sizeof part, MSG_DONTWAIT);
      if (n < 0 && errno == EAGAIN) return;
      if (n <= 0) return broke(c);
      if (c.request < 0) return forget(c);  // no open request
      c.in.append(part, static_cast<size_t>(n));
      if (whole(c)) return;
    }
  }

  // Ends the request if its answer is whole. Skips interim answers.
  bool whole(Connection& c) {
    while (c.in.starts_with("HTTP/1.1 1") && c.in.find("\r\n\r\n") != std::string::npos)
      c.in.erase(0, c.in.find("\r\n\r\n") + 4);
    const size_t end_of_head = c.in.find("\r\n\r\n");
    if (end_of_head == std::string::npos) return false;
    const std::string_view head = std::string_view(c.in).substr(0, end_of_head + 2);
    const size_t length =
        std::strtoull(std::string(field(head, "Content-Length")).c_str(), nullptr, 10);
    if (c.in.size() < end_of_head + 4 + length) return false;
    Asked& record = records_[static_cast<size_t>(c.request)];
    record.status = std::atoi(c.in.c_str() + std::min<size_t>(9, c.in.size()));
    if (const std::string_view seconds = field(head, "Retry-After"); !seconds.empty())
      record.retry_after = std::atoi(std::string(seconds).c_str());
    record.right =
        record.status == 200 && c.in.find(c.question->right, end_of_head + 4) != std::string::npos;
    end(c.request, End::kAnswered);
    c.request = -1;
    c.kept = true;
    if (field(head, "Connection") == "close" || record.half_closed)
      forget(c);
    else
      idle_.push_back(&c);
    return true;
  }

  void broke(Connection& c) {
    const int request = c.request;
    const Question* question = c.question;
    const bool again = load_.resends && c.kept && c.in.empty();
    forget(c);
    if (request < 0) return;
    if (again) return send_on(nullptr, request, *question, false);
    end(request, End::kBroken);
  }

  void forget(Connection& c) {
    std::erase(idle_, &c);
    connections_.erase(c.fd.get());
  }

  void end(int request, End how) {
    Asked& record = records_[static_cast<size_t>(request)];
    record.ended = clock_.now();
    record.end = how;
    --open_;
  }

  void tick(Time now) {
    tick_at_ = now + kTick;
    if (load_.every_tick) load_.every_tick(now - start_);
    std::vector<Connection*> late;
    for (const auto& [fd, c] : connections_)
      if (c->request >= 0 &&
          now - records_[static_cast<size_t>(c->request)].intended > load_.patience)
        late.push_back(c.get());
    for (Connection* c : late) {
      end(c->request, End::kTimedOut);
      forget(*c);
    }
  }

  const OpenLoad& load_;
  Random random_;
  sim::Arrivals arrivals_;
  SteadyClock clock_;
  Fd epoll_;
  Time start_{}, tick_at_{};
  std::vector<Asked> records_;
  std::unordered_map<int, std::unique_ptr<Connection>> connections_;  // by descriptor
  std::vector<Connection*> idle_;
  std::deque<std::pair<Time, Pause>> pauses_;
  int open_ = 0;
};

}  // namespace

std::vector<Question> questions(int count, uint64_t seed) {
  Random random(seed);
  std::vector<Question> all;
  for (int i = 0; i < count; ++i) {
    std::string body = R"({"inputs":[{"name":"input","datatype":"FP32","shape":[1,64],"data":[)";
    for (int n = 0; n < 64; ++n)
      body += (n == 0 ? "" : ",") + std::to_string(random.between(100, 999));
    body += "]}]}";
    SLUICE_CHECK(body.size() <= kBodyBytes, "the request is larger than it is said to be");
    body.resize(kBodyBytes, ' ');
    const std::string right = "\"sum\":" + std::to_string(checksum(body));
    all.push_back({std::move(body), right});
  }
  return all;
}

std::vector<Asked> play(const OpenLoad& load) {
  return Player(load).play();
}

std::vector<double> latencies(const std::vector<Asked>& asked, Nanos patience) {
  std::vector<double> all;
  for (const Asked& a : asked) all.push_back(millis(a.right ? a.latency() : patience));
  return all;
}

Tally tally(const std::vector<Asked>& asked) {
  Tally t;
  for (const Asked& a : asked) {
    ++t.sent;
    t.right += a.right;
    t.wrong += a.status == 200 && !a.right;
    t.refused += a.status == 429 || a.status == 503;
    t.errors += a.end == End::kAnswered && a.status != 200 && a.status != 429 && a.status != 503;
    t.broken += a.end == End::kBroken;
    t.timed_out += a.end == End::kTimedOut;
  }
  return t;
}

}  // namespace sluice::bench
