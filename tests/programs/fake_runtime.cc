// A stand-in for sluice-runtime without a framework: `fake_runtime zygote --control-fd 3` speaks
// wire/zygote.h with real processes, real gates and real HTTP. Its "models" are text files of
// words:
//   fail       the template cannot load it
//   slow N     loading takes N ms of sleep
//   crash      the instance says "no such tensor" and exits with 3 instead of getting ready
//   deaf       the instance never gets ready
//   stubborn   the instance ignores Drain and SIGTERM
//   busy       a thread that computes for ever, gated
//   nan        an element of "outputs" is NaN, which stands bare
// Instances answer every path with {"pid", "uid", "gate", "sum", "model_version", "model"}: with
// ?ms=N after N ms of gated work, with ?until=FILE when there is that file, with ?mib=N after
// taking N MiB for good ("taken": false where an allocation fails), and "outputs" that are always
// the same. `sum` is the request body's checksum, `model` the second line of the model file.
//
// `fake_runtime serve --model M --name N --listen WHERE` is one instance by itself, under the slice
// whose socket SLUICE_PERMIT_SOCKET names, if any. WHERE is an endpoint, or fd:N for a descriptor
// that listens. It knows `slow`, `crash` and `stubborn`.
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <thread>

#include "wire/http/http.h"
#include "wire/permit.h"  // first, as it says
#include "wire/zygote.h"

namespace sluice {
namespace {

using wire::ZygoteKind;

sluice_gate gate = {"", 0};
char permit_socket[108];
uint32_t model_version = 0;
std::string model_line;
bool has_nan = false;

using Words = std::map<std::string, int>;  // each with the number behind it, or 0

Words read_model(const std::string& path) {
  std::ifstream file(path);
  std::getline(file, model_line);
  std::getline(file, model_line);
  file.clear();
  file.seekg(0);
  Words words;
  std::string last;
  for (std::string word; file >> word;) {
    if (std::isdigit(static_cast<unsigned char>(word[0])))
      words[last] = std::stoi(word);
    else
      words[last = word] = 0;
  }
  return words;
}

// Starts `child` in a process of its own. Answers with its pidfd.
template <class Child>
void fork_and_answer(int socket, Child child) {
  const pid_t pid = fork();
  if (pid == 0) {
    child();
    _exit(0);
  }
  const Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  const std::array fds{pidfd.get()};
  (void)wire::send_message(socket, wire::Started{.pid = pid}, fds);
}

void burn(Nanos cpu) {
  thread_local sluice_thread* mine = nullptr;
  const auto used = [] {
    return Nanos(static_cast<int64_t>(sluice_clock(CLOCK_THREAD_CPUTIME_ID)));
  };
  const Nanos end = used() + cpu;
  for (Nanos now = used(); now < end;) {  // units of 100 µs
    sluice_gate_pass(&gate, &mine);
    for (const Nanos unit = now + Micros(100); now < unit;) now = used();
  }
  sluice_gate_idle_begin(mine);
}

// Returns false if an allocation has failed.
bool take(size_t mib) {
  static std::vector<std::unique_ptr<char[]>> held;
  constexpr size_t kMiB = size_t{1} << 20;
  for (size_t i = 0; i < mib; ++i) {
    std::unique_ptr<char[]> one(new (std::nothrow) char[kMiB]);
    if (!one) return false;
    std::memset(one.get(), 'x', kMiB);
    held.push_back(std::move(one));
  }
  return true;
}

wire::asio::awaitable<wire::HttpResponse> answer(wire::HttpRequest request) {
  const wire::Target target = *wire::parse_target(request.target());
  if (const std::string ms = target.get("ms"); !ms.empty()) burn(Millis(std::stoi(ms)));
  if (const std::string file = target.get("until"); !file.empty()) {
    boost::asio::steady_timer again(co_await boost::asio::this_coro::executor);
    while (access(file.c_str(), F_OK) != 0) {
      again.expires_after(Millis(5));
      co_await again.async_wait(boost::asio::use_awaitable);
    }
  }
  bool taken = true;
  if (const std::string mib = target.get("mib"); !mib.empty()) taken = take(std::stoul(mib));
  uint64_t sum = 0;
  for (const char c : request.body()) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  wire::HttpResponse response = wire::json_response(
      {{"taken", taken},
       {"pid", getpid()},
       {"uid", getuid()},
       {"model_version", model_version},
       {"model", model_line},
       {"gate", static_cast<int>(sluice_gate_state(&gate))},
       {"sum", sum},
       {"outputs",
        {{{"name", "y"}, {"datatype", "FP32"}, {"shape", {1, 3}}, {"data", {0.5, -1.0, 2.0}}}}}});
  if (has_nan) {
    response.body().replace(response.body().find("-1.0"), 4, "NaN");
    response.prepare_payload();
  }
  co_return response;
}

void serve(Fd listening, Fd control, bool stubborn) {
  wire::asio::io_context io{1};
  wire::HttpServer server(io, std::move(listening), answer);
  const auto drain = [&] {
    if (!stubborn) server.drain([&] { io.stop(); });
  };
  boost::asio::signal_set term(io, SIGTERM);
  term.async_wait([&](auto, int) { drain(); });
  boost::asio::posix::stream_descriptor messages(io, control.release());
  std::function<void()> listen = [&] {
    messages.async_wait(messages.wait_read, [&](boost::system::error_code fault) {
      const auto packet = wire::receive_packet(messages.native_handle());
      if (fault || !packet.ok()) return;  // the daemon is gone: serve on
      if (*wire::kind_of(*packet) == ZygoteKind::kDrain) drain();
      listen();
    });
  };
  listen();
  io.run();
}

void instance(const wire::StartInstance& what, std::vector<Fd> fds, const Words& model) {
  dup2(fds[2].get(), STDOUT_FILENO);
  dup2(fds[2].get(), STDERR_FILENO);
  const Result<wire::Packet> packet = wire::receive_packet(fds[1].get());
  if (!packet.ok() || *wire::kind_of(*packet) != ZygoteKind::kGo) _exit(5);
  const wire::Go go = *wire::message_of<wire::Go>(*packet);
  model_version = what.model_version;
  std::printf("%s runs\n", what.id);
  std::fflush(stdout);
  wire::set_text(permit_socket, go.permit_socket);
  gate.socket_path = permit_socket;
  if (packet->fds.size() == 3) {
    const int pages[] = {dup(packet->fds[0].get()), dup(packet->fds[1].get()),
                         dup(packet->fds[2].get())};
    sluice_attach_pages(&gate, sluice_process_of(&gate), pages, -1);
  }
  if (model.contains("crash")) {
    std::printf("no such tensor\n");
    std::fflush(stdout);
    _exit(3);
  }
  has_nan = model.contains("nan");
  if (model.contains("deaf")) pause();
  if (model.contains("busy"))
    std::thread([] {
      for (;;) burn(Millis(10));
    }).detach();
  (void)wire::send_message(fds[1].get(), wire::Ready{.load_ns = 1});
  serve(std::move(fds[0]), std::move(fds[1]), model.contains("stubborn"));
  _exit(0);
}

// Answers requests until the daemon's end closes.
template <class OnRequest>
void answer_all(int socket, OnRequest on_request) {
  for (;;) {
    Result<wire::Packet> packet = wire::receive_packet(socket);
    if (!packet.ok()) return;
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    on_request(*packet);
  }
}

void model_template(const wire::StartTemplate& what, int socket) {
  const Words model = read_model(what.model_path);
  if (what.uid != 0 &&
      (setgroups(0, nullptr) != 0 || setresgid(what.uid, what.uid, what.uid) != 0 ||
       setresuid(what.uid, what.uid, what.uid) != 0))
    _exit(4);
  if (model.contains("slow")) std::this_thread::sleep_for(Millis(model.at("slow")));
  if (model.contains("fail")) {
    const std::string path(what.model_path);
    (void)wire::send_message(socket, wire::failed({ErrorKind::kInvalid, path + ": not a model"}));
    return;
  }
  (void)wire::send_message(socket, wire::Ready{.load_ns = 1});
  answer_all(socket, [&](wire::Packet& packet) {
    const auto what = *wire::message_of<wire::StartInstance>(packet, 3);
    fork_and_answer(socket, [&] {
      close(socket);
      instance(what, std::move(packet.fds), model);
    });
  });
}

void zygote(int socket) {
  answer_all(socket, [&](wire::Packet& packet) {
    fork_and_answer(socket, [&] {
      close(socket);
      model_template(*wire::message_of<wire::StartTemplate>(packet, 1), packet.fds[0].get());
    });
  });
}

int serve_alone(const std::string& model_path, const std::string& name, const std::string& listen) {
  const Words model = read_model(model_path);
  std::printf("%s runs\n", name.c_str());
  std::fflush(stdout);
  if (model.contains("slow")) std::this_thread::sleep_for(Millis(model.at("slow")));
  if (model.contains("crash")) return 3;
  if (const char* slice = getenv("SLUICE_PERMIT_SOCKET"); slice != nullptr) {
    wire::set_text(permit_socket, slice);
    gate.socket_path = permit_socket;
  }
  Result<Fd> listening = listen.starts_with("fd:") ? Result<Fd>(Fd(std::stoi(listen.substr(3))))
                                                   : wire::listen_on(*wire::parse_endpoint(listen));
  if (!listening.ok()) return 1;
  wire::asio::io_context io{1};
  wire::HttpServer server(io, std::move(*listening), answer);
  boost::asio::signal_set term(io, SIGTERM);
  term.async_wait([&](auto, int) {
    if (!model.contains("stubborn")) io.stop();
  });
  io.run();
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  if (argc == 8 && std::string_view(argv[1]) == "serve")
    return sluice::serve_alone(argv[3], argv[5], argv[7]);
  sluice::zygote(3);
}
