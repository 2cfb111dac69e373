// replay_server MACHINE FILE [TIMES]: a server whose inference is one iteration of a recorded
// launch trace (tests/emulator/launch_trace.h), TIMES as slow, on the emulated machine. Answers any
// path but /healthz at $PORT of 127.0.0.1, one request after the other. A CUDA program that knows
// nothing of Sluice.
#include <boost/asio.hpp>
#include <boost/beast.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "tests/support/trace_player.h"

using namespace sluice::emulator;
using boost::asio::ip::tcp;
namespace http = boost::beast::http;

namespace {

class Model {
 public:
  Model(LaunchTrace trace, CUcontext context)
      : trace_(std::move(trace)),
        iterations_(iterations_of(trace_)),
        player_(trace_, clock_),
        context_(context) {}

  // From any thread.
  CUresult infer() {
    const std::lock_guard lock(mutex_);
    cuCtxSetCurrent(context_);
    // The first is colder than the others.
    const size_t which = iterations_.size() > 1 ? 1 + next_++ % (iterations_.size() - 1) : 0;
    return player_.play(iterations_[which], TracePlayer::Gaps::kSlept);
  }
  CUresult result() const { return player_.result(); }

 private:
  const LaunchTrace trace_;
  const std::vector<std::span<const TraceStep>> iterations_;
  const sluice::SteadyClock clock_;
  TracePlayer player_;
  const CUcontext context_;
  std::mutex mutex_;
  size_t next_ = 0;
};

void serve(tcp::socket socket, Model& model) {
  boost::beast::flat_buffer buffer;
  boost::system::error_code error;
  for (;;) {
    http::request<http::string_body> request;
    http::read(socket, buffer, request, error);
    if (error) return;
    CUresult result = CUDA_SUCCESS;
    if (request.target() != "/healthz") result = model.infer();
    http::response<http::string_body> response(
        result == CUDA_SUCCESS ? http::status::ok : http::status::internal_server_error,
        request.version());
    response.body() = result == CUDA_SUCCESS ? "ok" : "CUresult " + std::to_string(result);
    response.keep_alive(request.keep_alive());
    response.prepare_payload();
    http::write(socket, response, error);
    if (error || !request.keep_alive()) return;
  }
}

int fail(const std::string& why) {
  std::fprintf(stderr, "replay_server: %s\n", why.c_str());
  return 1;
}

}  // namespace

int main(int count, char** arguments) {
  const char* port = std::getenv("PORT");
  if (count < 3 || port == nullptr)
    return fail("replay_server MACHINE FILE [TIMES], with PORT set");
  setenv("SLUICE_EMULATED_GPU", arguments[1], 1);
  std::ifstream file(arguments[2]);
  LaunchTrace trace;
  std::string why;
  if (!read_trace({std::string(std::istreambuf_iterator<char>(file), {})}, trace, why))
    return fail(std::string(arguments[2]) + ": " + why);
  if (count > 3) slow_down(trace, static_cast<unsigned>(std::max(std::atoi(arguments[3]), 1)));
  CUcontext context = nullptr;
  CUresult result = cuInit(0);
  if (result == CUDA_SUCCESS) result = cuDevicePrimaryCtxRetain(&context, 0);
  if (result == CUDA_SUCCESS) result = cuCtxSetCurrent(context);
  if (result != CUDA_SUCCESS) return fail("no GPU: CUresult " + std::to_string(result));
  Model model(std::move(trace), context);
  if (model.result() != CUDA_SUCCESS)
    return fail("a call failed: CUresult " + std::to_string(model.result()));
  boost::asio::io_context io;
  tcp::acceptor acceptor(
      io, {boost::asio::ip::address_v4::loopback(), static_cast<unsigned short>(std::atoi(port))});
  std::printf("serving on port %s\n", port);
  std::fflush(stdout);
  for (;;) std::thread(serve, acceptor.accept(), std::ref(model)).detach();
}
