// The gateway as a process that ends, is killed and comes back. The test holds the listening socket
// as the supervisor does, and plays the instance. Nothing sleeps: sockets block, at most 30 s.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <deque>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "tests/support/eventually.h"
#include "wire/http/http.h"

namespace sluice {
namespace {

using testing::HasSubstr;

// A blocking stream socket.
class Peer {
 public:
  explicit Peer(int fd) : fd_(fd) {
    const timeval patience{.tv_sec = 30, .tv_usec = 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  void send(std::string_view text) {
    EXPECT_EQ(::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  // Returns the text received up to `end`; if it never comes, all text with "<closed>".
  std::string receive(std::string_view end) {
    std::string all;
    while (end.empty() || all.find(end) == all.npos) {
      char chunk[4096];
      const ssize_t n = ::recv(fd_.get(), chunk, sizeof chunk, 0);
      if (n <= 0) return all + (n == 0 ? "<closed>" : "<nothing>");
      all.append(chunk, static_cast<size_t>(n));
    }
    return all;
  }

 private:
  Fd fd_;
};

struct Process {
  pid_t pid = 0;
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid, 0), &status, 0);
    return status;
  }
  int end(int signal) {
    ::kill(pid, signal);
    return wait();
  }
};

class GatewayProcess : public testing::Test {
 protected:
  GatewayProcess() {
    char folder[] = "/tmp/sluice-gateway-XXXXXX";
    data_ = ::mkdtemp(folder);
    std::filesystem::create_directories(data_ + "/run");
    listening_ = std::move(*wire::listen_on({.host = "127.0.0.1", .port = 0}));
    socklen_t size = sizeof at_;
    ::getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&at_), &size);
    instance_ = std::move(*wire::listen_on({.path = data_ + "/i"}));
    write_routes(60'000);
  }
  ~GatewayProcess() override {
    for (Process& p : processes_)
      if (p.pid > 0) p.end(SIGKILL);
    std::filesystem::remove_all(data_);
  }

  void write_routes(int timeout_ms) {
    std::ofstream(data_ + "/run/routes.json")
        << R"({"version":1,"functions":[{"name":"default/f","timeout_ms":)" << timeout_ms
        << R"(,"revisions":[{"number":1,"percent":100}],)"
        << R"("instances":[{"id":"i","revision":1,"socket":")" << data_ << R"(/i","credit":4}]}]})";
  }

  Process& launch(std::vector<std::string> flags = {}) {
    const std::string program =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "gateway_main";
    std::vector<std::string> words{program,       "gateway", "--data",    data_,
                                   "--listen-fd", "3",       "--threads", "2"};
    words.insert(words.end(), flags.begin(), flags.end());
    std::vector<char*> argv;
    for (std::string& w : words) argv.push_back(w.data());
    argv.push_back(nullptr);
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int log = ::open((data_ + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      ::dup2(log, STDOUT_FILENO);
      ::dup2(log, STDERR_FILENO);
      if (listening_.get() == 3)
        ::fcntl(3, F_SETFD, 0);
      else
        ::dup2(listening_.get(), 3);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    processes_.push_back({pid});
    return processes_.back();
  }

  Peer connect() {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&at_), sizeof at_), 0);
    return Peer(fd);
  }
  Peer accepted() { return Peer(::accept4(instance_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }
  static std::string post(std::string_view body) {
    return "POST /v2/models/f/infer HTTP/1.1\r\nHost: x\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
  }
  static std::string answer(std::string_view body) {
    return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
           std::string(body);
  }

  std::string data_;
  Fd listening_, instance_;
  sockaddr_in at_{};
  std::deque<Process> processes_;
};

TEST_F(GatewayProcess, NewConnectionsWaitWhileItIsAwayAndAreServedByTheNext) {
  Process& first = launch();
  Peer before = connect();
  before.send(post("before"));
  Peer i = accepted();
  EXPECT_THAT(i.receive("before"), HasSubstr("POST /v2/models/f/infer"));
  first.end(SIGKILL);
  EXPECT_THAT(before.receive(""), HasSubstr("<closed>")) << "its open requests are lost";
  EXPECT_THAT(i.receive(""), HasSubstr("<closed>"));
  Peer meanwhile = connect();
  meanwhile.send(post("meanwhile"));
  launch();  // it knows its routes without a new message
  Peer k = accepted();
  EXPECT_THAT(k.receive("meanwhile"), HasSubstr("POST"));
  k.send(answer("served"));
  EXPECT_THAT(meanwhile.receive("served"), HasSubstr("HTTP/1.1 200"));
}

TEST_F(GatewayProcess, ToldToEndItFinishesWhatItHasWhileTheNextServes) {
  Process& old = launch();
  Peer idle = connect();
  idle.send("GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(idle.receive("}"), HasSubstr("HTTP/1.1 200"));
  Peer open = connect();
  open.send(post("open"));
  Peer i = accepted();
  i.receive("open");
  ::kill(old.pid, SIGTERM);
  EXPECT_EQ(idle.receive(""), "<closed>") << "nobody waits for the next request of a connection";
  launch();
  Peer late = connect();
  late.send(post("late"));
  Peer k = accepted();
  EXPECT_THAT(k.receive("late"), HasSubstr("POST"));
  k.send(answer("by the next"));
  EXPECT_THAT(late.receive("by the next"), HasSubstr("HTTP/1.1 200"));
  i.send(answer("in full"));
  const std::string last = open.receive("");
  EXPECT_THAT(last, HasSubstr("HTTP/1.1 200"));
  EXPECT_THAT(last, HasSubstr("Connection: close"));
  EXPECT_THAT(last, HasSubstr("in full<closed>"));
  EXPECT_EQ(old.wait(), 0) << "it ends by itself, with success";
}

// The loop sees that in the statistics, and replaces the instance.
TEST_F(GatewayProcess, AnInstanceThatIsSilentToAnAbandonedRequestIsReportedAsOverdue) {
  write_routes(/*timeout_ms=*/300);
  launch();
  std::optional<Peer> leaves(connect());
  leaves->send(post("long"));
  Peer i = accepted();
  EXPECT_THAT(i.receive("long"), HasSubstr("POST"));
  leaves.reset();
  EXPECT_EQ(i.receive(""), "<closed>") << "the gateway sends no more";
  wire::HttpClient admin({.path = data_ + "/run/gateway.sock"});
  EXPECT_TRUE(eventually("the silence", [&] {
    const auto stats = admin.json(wire::http::verb::get, "/v1/stats");
    return stats.ok() && (*stats)["functions"][0]["instances"][0]["overdue_us"] > 0;
  }));
}

// Loops share the queue: an answer that frees a credit wakes a session of another loop.
TEST_F(GatewayProcess, ManyClientsOnTwoLoopsAreAllAnswered) {
  Process& gateway = launch();
  wire::asio::io_context io;
  wire::HttpServer instance(io, std::move(instance_),
                            [](wire::HttpRequest r) -> wire::asio::awaitable<wire::HttpResponse> {
                              co_return wire::text_response(r.body());
                            });
  std::thread serving([&] { io.run(); });
  std::atomic<int> answered = 0;
  std::vector<std::thread> clients;
  for (int c = 0; c < 12; ++c)
    clients.emplace_back([&, c] {
      wire::HttpClient client({.host = "127.0.0.1", .port = ntohs(at_.sin_port)});
      for (int i = 0; i < 40; ++i) {
        const std::string body = std::to_string(c) + "/" + std::to_string(i);
        const auto r = client.call(wire::http::verb::post, "/v2/models/f/infer", body);
        answered += r.ok() && r->result_int() == 200 && r->body() == body ? 1 : 0;
      }
    });
  for (std::thread& t : clients) t.join();
  EXPECT_EQ(answered, 12 * 40);
  EXPECT_EQ(gateway.end(SIGTERM), 0);
  io.stop();
  serving.join();
}

TEST_F(GatewayProcess, ServesOverTlsAndNothingElseThere) {
  const std::string cert = data_ + "/cert.pem", key = data_ + "/key.pem";
  ASSERT_EQ(
      std::system(("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
                   "-subj /CN=localhost -days 1 -keyout " +
                   key + " -out " + cert + " 2>/dev/null")
                      .c_str()),
      0);
  launch({"--tls-cert", cert, "--tls-key", key});
  namespace asio = boost::asio;
  asio::io_context io;
  asio::ssl::context trust(asio::ssl::context::tls_client);
  trust.load_verify_file(cert);
  trust.set_verify_mode(asio::ssl::verify_peer);
  asio::ssl::stream<asio::ip::tcp::socket> client(io, trust);
  client.next_layer().connect({asio::ip::address_v4::loopback(), ntohs(at_.sin_port)});
  client.handshake(asio::ssl::stream_base::client);
  // Two requests on one connection, the second with a body of many records.
  std::optional<Peer> i;
  for (const std::string& body : {std::string("small"), std::string(300'000, 'l') + "end"}) {
    asio::write(client, asio::buffer(post(body)));
    if (!i) i.emplace(accepted());
    EXPECT_THAT(i->receive(body), HasSubstr("POST"));
    i->send(answer("seen " + std::to_string(body.size())));
    std::string seen;
    while (seen.find("seen " + std::to_string(body.size())) == seen.npos) {
      char chunk[4096];
      seen.append(chunk, client.read_some(asio::buffer(chunk)));
    }
    EXPECT_THAT(seen, HasSubstr("HTTP/1.1 200"));
  }
  Peer plain = connect();
  plain.send("GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(plain.receive(""), testing::Not(HasSubstr("200")));
}

TEST_F(GatewayProcess, ACertificateThatCannotBeReadIsAClearError) {
  Process& p = launch({"--tls-cert", data_ + "/none.pem", "--tls-key", data_ + "/none.pem"});
  EXPECT_EQ(WEXITSTATUS(p.wait()), 1);
  std::ifstream log(data_ + "/log");
  EXPECT_THAT((std::string{std::istreambuf_iterator<char>(log), {}}), HasSubstr("none.pem"));
}

}  // namespace
}  // namespace sluice
