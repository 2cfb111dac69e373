#include "runtime/model_server.h"

#include <algorithm>
#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <charconv>

#include "runtime/batch.h"
#include "runtime/inflate.h"
#include "runtime/oip.h"

namespace sluice::runtime {
namespace {

namespace asio = wire::asio;
namespace http = wire::http;
using wire::error_response;
using wire::HttpRequest;
using wire::HttpResponse;
using wire::json_response;

constexpr char kHeaderLength[] = "Inference-Header-Content-Length";
// Headers for tracing return with the answer.
constexpr const char* kEchoed[] = {"X-Request-Id", "traceparent", "tracestate"};

HttpResponse not_found(const std::string& what) {
  return error_response(404, what);
}

// Returns nothing if the verb is right, otherwise a 405 that names the allowed one.
std::optional<HttpResponse> wrong_verb(const HttpRequest& request, http::verb allowed) {
  if (request.method() == allowed) return std::nullopt;
  if (allowed == http::verb::get && request.method() == http::verb::head) return std::nullopt;
  const std::string name = http::to_string(allowed);
  HttpResponse response = error_response(
      405, std::string(request.method_string()) + " is not allowed here, " + name + " is");
  response.set(http::field::allow, name);
  return response;
}

std::optional<std::string_view> header(const HttpRequest& request, const char* name) {
  const auto found = request.find(name);
  if (found == request.end()) return std::nullopt;
  return std::string_view(found->value().data(), found->value().size());
}

// A hint: an unreadable value counts as none.
template <class Number>
std::optional<Number> hint(const HttpRequest& request, const char* name) {
  const std::optional<std::string_view> text = header(request, name);
  Number number = 0;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), number).ec != std::errc())
    return std::nullopt;
  return number;
}

// Returns the versions that, by the gateway, serve beside this one: "1,2". None without a gateway.
std::vector<std::string> versions_said(const HttpRequest& request) {
  std::vector<std::string> versions;
  std::string_view text = header(request, "Sluice-Versions").value_or("");
  while (!text.empty()) {
    const std::string_view next = text.substr(0, text.find(','));
    versions.emplace_back(next);
    text.remove_prefix(std::min(next.size() + 1, text.size()));
  }
  return versions;
}

// Keeps the requested outputs, in that order.
std::vector<Tensor> chosen(std::vector<Tensor> outputs,
                           const std::vector<RequestedOutput>& wanted) {
  std::vector<Tensor> kept;
  for (const RequestedOutput& w : wanted)
    for (Tensor& t : outputs)
      if (t.name == w.name) kept.push_back(std::move(t));
  return kept;
}

using Outcome = Result<Computed>;

// Suspends the coroutine until the runner has answered; resumes on the io_context.
asio::awaitable<Outcome> run(Runner& runner, asio::io_context& io, Work work) {
  auto start = [&](auto handler) {
    auto resume = std::make_shared<decltype(handler)>(std::move(handler));
    work.done = [&io, resume](Outcome outcome) {
      asio::post(io, [resume, outcome = std::make_shared<Outcome>(std::move(outcome))]() mutable {
        std::move (*resume)(std::move(outcome));
      });
    };
    runner.submit(std::move(work));
  };
  const auto outcome =
      co_await asio::async_initiate<const asio::use_awaitable_t<>, void(std::shared_ptr<Outcome>)>(
          start, asio::use_awaitable);
  co_return std::move(*outcome);
}

HttpResponse answer_response(EncodedAnswer answer, int inferences,
                             const wire::ComputeReport& report) {
  HttpResponse response =
      wire::text_response(std::move(answer.body),
                          answer.header_length ? "application/octet-stream" : "application/json");
  if (answer.header_length) response.set(kHeaderLength, std::to_string(*answer.header_length));
  response.set("Sluice-Inferences", std::to_string(inferences));
  response.set(wire::kComputeHeader, wire::to_text(report));
  return response;
}

}  // namespace

ModelServer::ModelServer(asio::io_context& io, Fd listening, ServedModel model, Runner& runner,
                         const Statistics& statistics, wire::HttpLimits limits)
    : io_(io),
      model_(std::move(model)),
      runner_(runner),
      statistics_(statistics),
      body_bytes_(limits.body_bytes),
      http_(
          io, std::move(listening),
          [this](HttpRequest request) { return handle(std::move(request)); }, limits) {}

void ModelServer::drain(std::function<void()> drained) {
  draining_ = true;
  http_.drain(std::move(drained));
}

asio::awaitable<HttpResponse> ModelServer::handle(HttpRequest request) {
  const auto target =
      wire::parse_target(std::string_view(request.target().data(), request.target().size()));
  HttpResponse response;
  if (target.ok())
    response = co_await route(request, target->path);
  else
    response = error_response(target.error());
  for (const char* name : kEchoed)
    if (const auto value = header(request, name)) response.set(name, *value);
  co_return response;
}

asio::awaitable<HttpResponse> ModelServer::route(const HttpRequest& request, const Path& path) {
  const auto get = [&](const nlohmann::json& body, int status = 200) {
    auto wrong = wrong_verb(request, http::verb::get);
    return wrong ? std::move(*wrong) : json_response(body, status);
  };
  if (path.empty() || path[0] != "v2") co_return not_found("there is no such path");
  if (path.size() == 1) co_return get(server_metadata());
  if (path == Path{"v2", "health", "live"}) co_return get({{"live", true}});
  if (path == Path{"v2", "health", "ready"})
    co_return get({{"ready", is_ready()}}, is_ready() ? 200 : 503);
  if (path == Path{"v2", "models"}) co_return get({{"models", {model_.name}}});
  if (path == Path{"v2", "models", "stats"})
    co_return get(
        {{"model_stats", {wire::to_json(model_.name, model_.version, statistics_.all())}}});
  if (path[1] == "repository") co_return repository(request, path);
  if (path[1] != "models") co_return not_found("there is no such path");

  // /v2/models/NAME[/versions/VERSION][/WHAT]
  if (path[2] != model_.name)
    co_return not_found("Request for unknown model: '" + path[2] + "' is not found");
  size_t rest = 3;
  if (path.size() > 4 && path[3] == "versions") {
    if (path[4] != model_.version)
      co_return not_found("Request for unknown model: '" + model_.name + "' has no version '" +
                          path[4] + "'");
    rest = 5;
  }
  if (path.size() > rest + 1) co_return not_found("there is no such path");
  const std::string what = path.size() > rest ? path[rest] : "";
  if (what != "infer") co_return about_model(request, what);
  if (auto wrong = wrong_verb(request, http::verb::post)) co_return std::move(*wrong);
  co_return co_await infer(request);
}

HttpResponse ModelServer::about_model(const HttpRequest& request, const std::string& what) {
  nlohmann::json body;
  int status = 200;
  if (what.empty()) {
    body = model_metadata(model_, versions_said(request));
  } else if (what == "ready") {
    body = {{"name", model_.name}, {"ready", is_ready()}};
    status = is_ready() ? 200 : 503;
  } else if (what == "config") {
    body = model_config(model_, versions_said(request));
  } else if (what == "stats") {
    body = {{"model_stats", {wire::to_json(model_.name, model_.version, statistics_.all())}}};
  } else {
    return not_found("there is no such path");
  }
  if (auto wrong = wrong_verb(request, http::verb::get)) return std::move(*wrong);
  return json_response(body, status);
}

HttpResponse ModelServer::repository(const HttpRequest& request, const Path& path) {
  const bool is_index = path.size() == 3 && path[2] == "index";
  const bool is_change =
      path.size() == 5 && path[2] == "models" && (path[4] == "load" || path[4] == "unload");
  if (!is_index && !is_change) return not_found("there is no such path");
  if (auto wrong = wrong_verb(request, http::verb::post)) return std::move(*wrong);
  if (is_index) {
    nlohmann::json asked = nlohmann::json::object();
    if (!request.body().empty()) {
      const auto parsed = wire::parse_json(request.body());
      if (!parsed.ok()) return error_response(parsed.error());
      asked = *parsed;
    }
    const bool only_ready = asked.is_object() && asked.value("ready", nlohmann::json()) == true;
    nlohmann::json index = nlohmann::json::array();
    if (is_ready() || !only_ready) index.push_back(repository_entry(model_, is_ready()));
    return json_response(index);
  }
  if (path[3] != model_.name)
    return not_found("failed to " + path[4] + " '" + path[3] + "': there is no such model");
  // The weights stay: all instances of the revision share them.
  loaded_ = path[4] == "load";
  return json_response({{"name", model_.name}, {path[4], true}});
}

asio::awaitable<HttpResponse> ModelServer::infer(const HttpRequest& request) {
  if (!loaded_) co_return error_response(503, "model '" + model_.name + "' is unloaded");
  std::string inflated;
  const std::string_view encoding = header(request, "Content-Encoding").value_or("identity");
  const bool plain = is_identity(encoding);
  if (!plain && !inflatable(encoding))
    co_return error_response(415, "Content-Encoding: '" + std::string(encoding.substr(0, 40)) +
                                      "' is none of gzip, deflate and identity");
  if (!plain) {
    // A body that inflates beyond the model's needs would only fill this instance's memory.
    const size_t most =
        std::min({hint<size_t>(request, "Sluice-Body-Limit").value_or(body_bytes_), body_bytes_,
                  request_bytes(model_.file.spec, model_.batching.max_size).value_or(body_bytes_)});
    auto outcome = inflate_body(request.body(), encoding, most);
    if (!outcome.ok() && outcome.error().kind == ErrorKind::kExhausted)
      co_return error_response(413, outcome.error().message);
    if (!outcome.ok()) co_return error_response(outcome.error());
    inflated = std::move(*outcome);
  }
  auto parsed = parse_infer(plain ? request.body() : inflated, header(request, kHeaderLength),
                            model_.file.spec);
  if (!parsed.ok()) co_return error_response(parsed.error());
  const auto inferences = inferences_of(*parsed, model_.file.spec, model_.batching.max_size);
  if (!inferences.ok()) co_return error_response(inferences.error());

  Work work{.inputs = std::move(parsed->inputs),
            .inferences = *inferences,
            .more = hint<int>(request, "Sluice-More")};
  if (const auto left = hint<uint32_t>(request, "Sluice-Time-Left")) work.time_left = Micros(*left);
  work.key = batch_key(work.inputs);
  Outcome outcome = co_await run(runner_, io_, std::move(work));
  if (!outcome.ok()) co_return error_response(outcome.error());

  const InferAnswer answer{model_.name, model_.version,
                           chosen(std::move(outcome->outputs), parsed->outputs)};
  auto encoded = encode_answer(answer, *parsed);
  if (!encoded.ok()) co_return error_response(encoded.error());
  co_return answer_response(std::move(*encoded), *inferences, outcome->report);
}

}  // namespace sluice::runtime
