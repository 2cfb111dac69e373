#include "gateway/local_answers.h"

#include "gateway/repository.h"
#include "wire/http/prometheus.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;
using wire::MetricFamily;
using wire::MetricLabels;
using wire::with;
using Type = MetricFamily::Type;

LocalAnswer not_allowed(std::string allow) {
  LocalAnswer refused = as_json({{"error", "method not allowed; " + allow + " is"}}, 405);
  refused.allow = std::move(allow);
  return refused;
}

// The refusals of requests that clients of Triton and KServe may make, in one sentence.
std::optional<LocalAnswer> refusal(std::string_view path) {
  const auto because = [](int status, const char* why) {
    return as_json({{"error", why}}, status);
  };
  if (path.starts_with("/v1/models"))
    return because(404, "KServe's v1 protocol is not served: ask /v2/models/NAME/infer");
  if (path == "/v2/trace/setting" || path.ends_with("/trace/setting"))
    return because(501, "trace settings are not served");
  if (path == "/v2/logging") return because(501, "logging settings are not served");
  if (path.starts_with("/v2/systemsharedmemory") || path.starts_with("/v2/cudasharedmemory"))
    return because(501, "shared memory is not served: send tensors within requests");
  return std::nullopt;
}

double micros(Nanos d) {
  return static_cast<double>(d.count()) / 1000;
}

// Writes the names and labels of Triton, for each revision with traffic.
void put_triton_metrics(std::string& out, const std::vector<FunctionStats>& all) {
  const auto each = [&](const char* name, Type type, const char* help, auto add) {
    MetricFamily family(out, name, type, help);
    for (const FunctionStats& f : all)
      for (const auto& [number, r] : f.revisions)
        add(family,
            MetricLabels{{"model", served_name(f.name)}, {"version", std::to_string(number)}}, r);
  };
  const auto counter = [&](const char* name, const char* help, auto value) {
    each(name, Type::kCounter, help,
         [&](MetricFamily& family, const MetricLabels& labels, const RevisionStats& r) {
           family.add(labels, static_cast<double>(value(r.model)));
         });
  };
  using Model = wire::ModelStatistics;
  counter("nv_inference_request_success", "Requests answered with success.",
          [](const Model& m) { return m.success.count; });
  counter("nv_inference_count", "Inferences done.", [](const Model& m) { return m.inferences; });
  counter("nv_inference_exec_count", "Batches run.", [](const Model& m) { return m.executions; });
  counter("nv_inference_request_duration_us", "Sum of request durations.",
          [](const Model& m) { return micros(m.success.total); });
  counter("nv_inference_queue_duration_us", "Sum of waiting, at the gateway and at instances.",
          [](const Model& m) { return micros(m.queue.total); });
  counter("nv_inference_compute_input_duration_us", "Sum of joining inputs.",
          [](const Model& m) { return micros(m.input.total); });
  counter("nv_inference_compute_infer_duration_us", "Sum of running the model.",
          [](const Model& m) { return micros(m.infer.total); });
  counter("nv_inference_compute_output_duration_us", "Sum of taking outputs apart.",
          [](const Model& m) { return micros(m.output.total); });
  each("nv_inference_pending_request_count", Type::kGauge, "Requests waiting for an instance.",
       [](MetricFamily& family, const MetricLabels& labels, const RevisionStats& r) {
         family.add(labels, r.queued);
       });
  each("nv_inference_request_failure", Type::kCounter,
       "Requests not answered with success, by reason.",
       [](MetricFamily& family, const MetricLabels& labels, const RevisionStats& r) {
         const std::pair<const char*, uint64_t> reasons[] = {{"REJECTED", r.rejected},
                                                             {"CANCELED", r.cancelled},
                                                             {"BACKEND", r.broken},
                                                             {"OTHER", r.timed_out}};
         for (const auto& [reason, count] : reasons)
           family.add(with(labels, "reason", reason), static_cast<double>(count));
       });
}

}  // namespace

LocalAnswer as_json(const json& body, int status) {
  return {.status = status, .body = wire::text_of(body)};
}

bool LocalAnswers::is_public(std::string_view target) {
  return target == "/" || target.starts_with("/v2/health/");
}

bool LocalAnswers::reads_body(std::string_view target) {
  return target.starts_with("/v2/repository/");
}

LocalAnswer LocalAnswers::readiness() const {
  bool ready = true;
  if (strict_readiness_)
    for (const auto& [served, f] : dispatcher_.table().functions) ready = ready && is_ready(f);
  return as_json({{"ready", ready}, {"live", true}}, ready ? 200 : 503);
}

std::optional<LocalAnswer> LocalAnswers::answer(std::string_view method, std::string_view target,
                                                Time now, std::string_view body) const {
  constexpr std::string_view kModels = "/v2/repository/models/";
  const std::string_view path = target.substr(0, target.find('?'));
  const bool get = method == "GET" || method == "HEAD", post = method == "POST";
  const auto only = [&](bool allowed, std::string allow, auto make) -> LocalAnswer {
    return allowed ? make() : not_allowed(std::move(allow));
  };
  if (path == "/v2/health/live") return only(get, "GET", [] { return as_json({{"live", true}}); });
  if (path == "/v2/health/ready") return only(get, "GET", [&] { return readiness(); });
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
    return only(post, "POST", [&] { return repository_index(dispatcher_.table(), body); });
  if (path.starts_with(kModels))
    return only(post, "POST", [&] {
      return load_or_unload(dispatcher_.table(), path.substr(kModels.size()), body);
    });
  if (path == "/v2/models/stats" && !dispatcher_.knows("stats"))
    return only(get, "GET", [&] { return as_json({{"model_stats", statistics(now, "", 0)}}); });
  if (path == "/metrics")
    return only(get, "GET", [&] {
      return LocalAnswer{.body = metrics(now),
                         .content_type = "text/plain; version=0.0.4; charset=utf-8"};
    });
  if (path == "/") return only(get, "GET", [] { return as_json({{"status", "alive"}}); });
  if (path.starts_with("/functions/")) return std::nullopt;
  if (auto refused = refusal(path)) return refused;
  if (!path.starts_with("/v2/models/")) return as_json({{"error", "no such path"}}, 404);
  return std::nullopt;
}

LocalAnswer LocalAnswers::function_statistics(std::string_view method, std::string_view served,
                                              int revision, Time now) const {
  if (method != "GET" && method != "HEAD") return not_allowed("GET");
  return as_json({{"model_stats", statistics(now, served, revision)}});
}

// In Triton's terms, an element for each revision; of one function or, if `served` is empty, of
// all. Revision 0: all with traffic.
json LocalAnswers::statistics(Time now, std::string_view served, int revision) const {
  json all = json::array();
  for (const FunctionStats& f : dispatcher_.stats(now)) {
    if (!served.empty() && served != served_name(f.name)) continue;
    for (const auto& [number, r] : f.revisions) {
      if (revision != 0 && revision != number) continue;
      wire::ModelStatistics model = r.model;
      if (r.last != Time{}) model.last_inference = unix_now() - (now - r.last) / Millis(1);
      all.push_back(wire::to_json(served_name(f.name), std::to_string(number), model));
    }
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
  put_triton_metrics(out, all);
  const auto labels = [](const FunctionStats& s) {
    return MetricLabels{{"namespace", s.name.space}, {"function", s.name.name}};
  };
  const auto family = [&](const char* name, Type type, const char* help, auto label, auto value) {
    MetricFamily f(out, name, type, help);
    for (const FunctionStats& s : all) f.add(label(s), static_cast<double>(value(s)));
  };
  const auto c = [](auto member) {
    return [member](const FunctionStats& s) { return s.counters.*member; };
  };
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
