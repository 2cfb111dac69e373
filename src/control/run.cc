#include "control/run.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "base/log.h"
#include "control/api.h"
#include "control/cluster_local.h"
#include "control/kept_answers.h"
#include "control/memory_limit.h"
#include "control/model_archive.h"
#include "control/store.h"
#include "control/turns.h"
#include "predict/profile_table.h"

namespace sluice::control {
namespace {

namespace asio = boost::asio;

constexpr int64_t kLongestWaitMs = 60'000;
// Requests wait for it, because nothing is known before it.
constexpr Nanos kFirstTurn = Seconds(1);
constexpr Nanos kTcpGap = Millis(5);  // strangers may connect there: 200 a second take little time
constexpr size_t kLargestBody = 1 << 20;  // of function files and profiles

// The parts that answer the API's requests.
struct Serving {
  Turns& turns;
  KeptAnswers& kept;
  asio::thread_pool& files;  // reads function files and the files that they name
  ModelCopies& models;
  const Control& control;
};

// Removes unused copies of models, beside the loop. All copies stay while a revision in the store
// cannot be read, because its copy is unknown. `applied` holds its copies until now.
void sweep(Serving with, std::optional<Result<Api::FunctionsRead>> applied = {}) {
  auto used = with.control.contents();
  if (!used) return;
  with.models.set_used(std::move(*used));
  applied.reset();
  asio::post(with.files, [&models = with.models] { models.sweep(); });
}

// GET …?after=TURN&wait_ms=N waits for the loop's next tick. The effect of a change begins before
// it is answered, so that an applied function can be called. Every answer names the last tick
// before it.
asio::awaitable<wire::HttpResponse> answer(Api& api, Serving with, wire::HttpRequest request) {
  Turns& turns = with.turns;
  if (turns.number() == 0) co_await turns.after(0, kFirstTurn);
  const bool is_get = request.method() == wire::http::verb::get;
  const auto target = wire::parse_target(request.target());
  if (target.ok() && is_get && !target->get("wait_ms").empty()) {
    const uint64_t turn = std::strtoull(target->get("after").c_str(), nullptr, 10);
    const int64_t wait = std::strtoll(target->get("wait_ms").c_str(), nullptr, 10);
    co_await turns.after(turn, Millis(std::clamp<int64_t>(wait, 0, kLongestWaitMs)));
  }
  wire::HttpResponse response;
  if (Api::is_apply(request)) {
    std::optional<Result<Api::FunctionsRead>> functions;
    const auto read = [&]() -> asio::awaitable<void> {
      functions = api.read_functions(request, with.models);
      co_return;
    };
    co_await asio::co_spawn(with.files, read, asio::use_awaitable);
    response = api.apply(request, *functions, unix_now());
    with.kept.forget();
    sweep(with, std::move(functions));
  } else if (is_get) {
    response = with.kept.get(request.target(), [&] { return api.handle(request, unix_now()); });
  } else {
    co_await turns.settle();  // an order would wait behind the tick's calls, and has little time
    response = api.handle(request, unix_now());
    with.kept.forget();
    if (request.method() == wire::http::verb::delete_) sweep(with);
  }
  if (!is_get && response.result_int() / 100 == 2) co_await turns.make();
  response.set("Sluice-Turn", std::to_string(turns.number()));
  co_return response;
}

}  // namespace

Result<void> run_control(const ControlOptions& options) {
  ControlOptions o = options;
  o.settings.models = o.data + "/models";
  std::ifstream("/proc/sys/kernel/random/boot_id") >> o.settings.boot_id;
  SLUICE_ASSIGN(store, Store::open(o.data + "/control.db"));
  const SteadyClock clock;
  // Outlives `io`, whose unfinished coroutines release their holds of copies at its end.
  ModelCopies models(o.settings.models, check_model_archive);
  asio::io_context io(1);
  Waiters quiet(io);
  LocalCluster cluster(o.data + "/run/node.sock", o.data + "/run/gateway.sock",
                       [&] { asio::post(io, [&] { quiet.wake(); }); });
  predict::ProfileTable predictor;
  // Each server's term is higher than that of the one before it.
  SLUICE_ASSIGN(jobs,
                train::JobServer::open({.path = o.data + "/run/jobs.sock"}, unix_now(), clock));
  LocalTraining training({std::filesystem::absolute(o.data), o.trainer}, std::move(jobs));
  o.settings.training = &training;
  SLUICE_ASSIGN(control, Control::open(store, store, cluster, predictor, clock, o.settings));
  std::string token;
  std::ifstream(o.data + "/token") >> token;

  KeptAnswers kept;
  Turns turns(io, *control, cluster, quiet, [&] { kept.forget(); });
  asio::thread_pool files(2);
  const Serving serving{turns, kept, files, models, *control};
  sweep(serving);
  const auto serve = [&](Fd listening, const std::string& bearer, Nanos gap) {
    const auto api = std::make_shared<Api>(*control, bearer, o.home);
    return std::make_unique<wire::HttpServer>(
        io, std::move(listening),
        [serving, api](wire::HttpRequest request) {
          return answer(*api, serving, std::move(request));
        },
        wire::HttpLimits{.body_bytes = kLargestBody, .gap = gap},
        [api](const wire::HttpHead& head) { return api->refusal(head); });
  };
  // The socket is only for its owner; over TCP every caller must bear the token.
  Fd local(o.listen_fd);
  if (!local.valid()) {
    SLUICE_ASSIGN(made, wire::listen_on({.path = o.data + "/run/api.sock"}));
    local = std::move(made);
  }
  const auto unix_server = serve(std::move(local), "", Nanos(0));
  std::unique_ptr<wire::HttpServer> tcp_server;
  if (o.tcp_fd >= 0) {
    if (token.empty())
      return Error{ErrorKind::kInternal,
                   o.data + "/token: missing: the API is not served over TCP without one"};
    tcp_server = serve(Fd(o.tcp_fd), token, kTcpGap);
  }
  asio::signal_set signals(io, SIGTERM, SIGINT);
  signals.async_wait([&](boost::system::error_code fault, int) {
    if (!fault) io.stop();
  });
  asio::co_spawn(io, turns.run(), [](std::exception_ptr broken) {
    if (broken) std::rethrow_exception(broken);
  });
  log::info("policy {}, {} functions", o.settings.bundle, control->functions().size());
  if (const auto limited = limit_memory(); !limited.ok())
    log::warn("memory is not limited: {}", limited.error().message);
  io.run();
  models.stop();  // a running copy ends after its next piece
  files.stop();
  files.join();
  control->close();
  return {};
}

}  // namespace sluice::control
