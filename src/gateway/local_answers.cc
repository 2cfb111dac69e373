#include "gateway/local_answers.h"

#include "wire/prometheus.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;
using wire::MetricFamily;
using wire::MetricLabels;
using wire::with;
using Type = MetricFamily::Type;

LocalAnswer as_json(const json& body, int status = 200) {
  return {.status = status, .body = body.dump()};
}

}  // namespace

bool LocalAnswers::is_public(std::string_view target) {
  return target == "/" || target.starts_with("/v2/health/");
}

std::optional<LocalAnswer> LocalAnswers::answer(std::string_view method, std::string_view target,
                                                Time now) const {
  const std::string_view path = target.substr(0, target.find('?'));
  const bool get = method == "GET" || method == "HEAD";
  const auto only = [&](bool allowed, std::string allow, auto make) -> LocalAnswer {
    if (!allowed) {
      LocalAnswer refused = as_json({{"error", "method not allowed"}}, 405);
      refused.allow = std::move(allow);
      return refused;
    }
    return make();
  };
  if (path == "/v2/health/live") return only(get, "GET", [] { return as_json({{"live", true}}); });
  if (path == "/v2/health/ready")
    return only(get, "GET", [] { return as_json({{"ready", true}, {"live", true}}); });
  if (path == "/v2" || path == "/v2/")
    return only(get, "GET", [&] {
      return as_json(
          {{"name", "sluice"},
           {"version", version_},
           {"extensions",
            {"binary_tensor_data", "model_repository", "model_configuration", "statistics"}}});
    });
  if (path == "/v2/models" || path == "/v2/models/")
    return only(get, "GET", [&] {
      json names = json::array();
      for (const auto& [served, route] : dispatcher_.table().functions) names.push_back(served);
      return as_json({{"models", names}});
    });
  if (path == "/v2/repository/index")
    return only(method == "POST", "POST", [&] {
      json index = json::array();
      for (const auto& [served, route] : dispatcher_.table().functions)
        for (const auto& p : route.split) {
          bool ready = false;
          for (const auto& i : route.instances)
            ready = ready || (i.ready && i.revision == p.revision);
          index.push_back({{"name", served},
                           {"version", std::to_string(p.revision)},
                           {"state", ready ? "READY" : "LOADING"},
                           {"reason", route.unavailable}});
        }
      return as_json(index);
    });
  if (path.starts_with("/v2/repository/models/"))
    return only(method == "POST", "POST", [&] { return load_or_unload(path); });
  if (path == "/v2/models/stats" && !dispatcher_.knows("stats"))
    return only(get, "GET", [&] { return as_json({{"model_stats", statistics(now)}}); });
  if (path == "/metrics")
    return only(get, "GET", [&] {
      return LocalAnswer{.body = metrics(now),
                         .content_type = "text/plain; version=0.0.4; charset=utf-8"};
    });
  if (path == "/") return only(get, "GET", [] { return as_json({{"status", "alive"}}); });
  if (!path.starts_with("/v2/models/")) return as_json({{"error", "no such path"}}, 404);
  return std::nullopt;
}

// Functions come and go by `sluice apply` and `sluice delete`: clients that make sure of a model
// before they use it are told so.
LocalAnswer LocalAnswers::load_or_unload(std::string_view path) const {
  path.remove_prefix(std::string_view("/v2/repository/models/").size());
  const size_t slash = path.find('/');
  const std::string name(path.substr(0, slash));
  const std::string_view what = slash == path.npos ? "" : path.substr(slash + 1);
  if (what != "load" && what != "unload") return as_json({{"error", "no such path"}}, 404);
  if (!dispatcher_.knows(name))
    return as_json({{"error", "function '" + name + "' not found; sluice apply makes it"}}, 404);
  if (what == "load") return as_json(json::object());
  return as_json({{"error", "function '" + name + "' is unloaded by sluice delete"}}, 400);
}

// In Triton's words, of all functions; durations in nanoseconds.
json LocalAnswers::statistics(Time now) const {
  json all = json::array();
  for (const FunctionStats& s : dispatcher_.stats(now)) {
    const Counters& c = s.counters;
    const auto part = [](uint64_t count, Nanos sum) {
      return json{{"count", count}, {"ns", sum.count()}};
    };
    all.push_back({{"name", served_name(s.name)},
                   {"inference_count", c.inferences},
                   {"inference_stats",
                    {{"success", part(c.ok, c.latency.sum())},
                     {"fail", part(c.invalid + c.failed + c.shed + c.timed_out, Nanos(0))},
                     {"queue", part(c.waiting.count(), c.waiting.sum())}}}});
  }
  return all;
}

// Made anew at most every 100 ms: clients that ask without end cost copies, not counters' locks.
std::string LocalAnswers::metrics(Time now) const {
  const std::lock_guard lock(mutex_);
  if (metrics_.empty() || now - made_ >= Millis(100)) {
    metrics_ = make_metrics(now);
    made_ = now;
  }
  return metrics_;
}

std::string LocalAnswers::make_metrics(Time now) const {
  const std::vector<FunctionStats> all = dispatcher_.stats(now);
  std::string out;
  const auto labels = [](const FunctionStats& s) {
    return MetricLabels{{"namespace", s.name.space}, {"function", s.name.name}};
  };
  const auto model = [](const FunctionStats& s) {
    return MetricLabels{{"model", served_name(s.name)}, {"version", ""}};
  };
  const auto family = [&](const char* name, Type type, const char* help, auto label, auto value) {
    MetricFamily f(out, name, type, help);
    for (const FunctionStats& s : all) f.add(label(s), static_cast<double>(value(s)));
  };
  const auto c = [](auto member) {
    return [member](const FunctionStats& s) { return s.counters.*member; };
  };
  family("nv_inference_request_success", Type::kCounter, "Requests answered with success.", model,
         c(&Counters::ok));
  family("nv_inference_count", Type::kCounter, "Inferences done.", model, c(&Counters::inferences));
  family("nv_inference_pending_request_count", Type::kGauge, "Requests waiting for an instance.",
         model, [](const FunctionStats& s) { return s.queued; });
  family("nv_inference_request_duration_us", Type::kCounter, "Sum of request durations.", model,
         [](const FunctionStats& s) {
           return static_cast<double>(s.counters.latency.sum().count()) / 1000;
         });
  family("nv_inference_queue_duration_us", Type::kCounter, "Sum of waiting for an instance.", model,
         [](const FunctionStats& s) {
           return static_cast<double>(s.counters.waiting.sum().count()) / 1000;
         });
  {
    MetricFamily f(out, "nv_inference_request_failure", Type::kCounter,
                   "Requests not answered with success, by reason.");
    for (const FunctionStats& s : all) {
      f.add(with(model(s), "reason", "REJECTED"), static_cast<double>(s.counters.shed));
      f.add(with(model(s), "reason", "CANCELED"), static_cast<double>(s.counters.gone));
      f.add(with(model(s), "reason", "BACKEND"), static_cast<double>(s.counters.failed));
      f.add(with(model(s), "reason", "OTHER"), static_cast<double>(s.counters.timed_out));
    }
  }
  family("sluice_requests_total", Type::kCounter, "Requests that named the function.", labels,
         c(&Counters::requests));
  family("sluice_cold_starts_total", Type::kCounter,
         "Requests that waited for an instance to start.", labels, c(&Counters::cold_starts));
  family("sluice_retries_total", Type::kCounter, "Requests sent again because an instance died.",
         labels, c(&Counters::retried));
  family("sluice_in_flight", Type::kGauge, "Requests at an instance now.", labels,
         [](const FunctionStats& s) { return s.in_flight; });
  {
    MetricFamily f(out, "sluice_slo_violations_total", Type::kCounter,
                   "Requests late, shed, failed or timed out.");
    for (const FunctionStats& s : all) {
      f.add(with(labels(s), "kind", "late"), static_cast<double>(s.counters.late));
      f.add(with(labels(s), "kind", "shed"), static_cast<double>(s.counters.shed));
      f.add(with(labels(s), "kind", "failed"), static_cast<double>(s.counters.failed));
      f.add(with(labels(s), "kind", "timed_out"), static_cast<double>(s.counters.timed_out));
    }
  }
  {
    MetricFamily f(out, "sluice_request_duration_seconds", Type::kHistogram,
                   "Arrival to the last byte of the answer.");
    for (const FunctionStats& s : all) f.add(labels(s), s.counters.latency);
  }
  return out;
}

}  // namespace sluice::gateway
