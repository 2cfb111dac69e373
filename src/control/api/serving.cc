#include "control/api/serving.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdlib>
#include <string>
#include <utility>

namespace sluice::control {
namespace {

namespace asio = boost::asio;

constexpr int64_t kLongestWaitMs = 60'000;
// Requests wait for it, because nothing is known before it.
constexpr Nanos kFirstTick = Seconds(1);

}  // namespace

Serving::Serving(asio::io_context& io, Control& control, Cluster& cluster, Models& models)
    : control_(control), models_(models), ticks_(io, control, cluster, [this] { kept_.forget(); }) {
  sweep();
}

Serving::~Serving() {
  models_.stop();
  files_.stop();
  files_.join();
}

// Removes unused copies of models, beside the loop. All copies stay while a revision in the store
// cannot be read, because its copy is unknown. `applied` holds its copies until now.
void Serving::sweep(std::optional<Result<Api::FunctionsRead>> applied) {
  auto used = control_.contents();
  if (!used) return;
  models_.set_used(std::move(*used));
  applied.reset();
  asio::post(files_, [&models = models_] { models.sweep(); });
}

asio::awaitable<wire::HttpResponse> Serving::apply(Api& api, const wire::HttpRequest& request) {
  std::optional<Result<Api::FunctionsRead>> functions;
  const auto read = [&]() -> asio::awaitable<void> {
    functions = api.read_functions(request, models_);
    co_return;
  };
  co_await asio::co_spawn(files_, read, asio::use_awaitable);
  wire::HttpResponse response = api.apply(request, *functions, unix_now());
  kept_.forget();
  sweep(std::move(functions));
  co_return response;
}

asio::awaitable<wire::HttpResponse> Serving::answer(Api& api, wire::HttpRequest request) {
  if (ticks_.number() == 0) co_await ticks_.after(0, kFirstTick);
  const bool is_get = request.method() == wire::http::verb::get;
  const auto target = wire::parse_target(request.target());
  if (target.ok() && is_get && !target->get("wait_ms").empty()) {
    const uint64_t tick = std::strtoull(target->get("after").c_str(), nullptr, 10);
    const int64_t wait = std::strtoll(target->get("wait_ms").c_str(), nullptr, 10);
    co_await ticks_.after(tick, Millis(std::clamp<int64_t>(wait, 0, kLongestWaitMs)));
  }
  wire::HttpResponse response;
  if (Api::is_apply(request)) {
    response = co_await apply(api, request);
  } else if (is_get) {
    response = kept_.get(request.target(), [&] { return api.handle(request, unix_now()); });
  } else {
    co_await ticks_.settle();  // an order would wait behind the tick's calls, and has little time
    response = api.handle(request, unix_now());
    kept_.forget();
    if (request.method() == wire::http::verb::delete_) sweep();
  }
  const bool at_once = target.ok() && target->get("at_once") == "1";
  if (!is_get && !at_once && response.result_int() / 100 == 2) co_await ticks_.make();
  response.set("Sluice-Turn", std::to_string(ticks_.number()));
  co_return response;
}

}  // namespace sluice::control
