#include "control/api/api.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/printable.h"
#include "base/secret.h"
#include "base/words.h"
#include "control/api/device_names.h"
#include "control/api/history.h"
#include "control/api/listings.h"
#include "control/api/metrics.h"
#include "control/api/plan_listings.h"
#include "control/api/scrape_targets.h"
#include "control/spec/function_file.h"
#include "wire/json/json.h"

namespace sluice::control {
namespace {

using nlohmann::json;
using wire::http::verb;

Result<int> to_int(const std::string& text, std::string_view what, int otherwise) {
  if (text.empty()) return otherwise;
  int n = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (fault != std::errc() || end != text.data() + text.size() || n < 0)
    return Error{ErrorKind::kInvalid,
                 std::string(what) + ": '" + text + "' is no number from 0 up"};
  return n;
}

bool is_dry(const wire::Target& target) {
  return target.get("dry_run") == "1";
}

// Returns every model that an instance may have.
std::vector<ModelSpec*> models_of(FunctionSpec& spec) {
  if (!spec.is_inference() || spec.inference().variants.empty()) return {&spec.model()};
  std::vector<ModelSpec*> all;
  for (ModelVariant& v : spec.inference().variants)
    if (v.fault.empty()) all.push_back(&v.model);
  return all;
}

Error no_function(const Control& control, const FunctionName& name) {
  std::vector<std::string> all;
  for (const auto& [function, r] : control.functions()) all.push_back(to_string(function));
  for (const auto& [function, apart] : control.apart()) all.push_back(to_string(function));
  return {ErrorKind::kNotFound, not_found("function", to_string(name), all)};
}

}  // namespace

std::optional<wire::HttpResponse> Api::refusal(const wire::HttpHead& head) const {
  const auto field = head[wire::http::field::authorization];
  const std::string_view bearer(field.data(), field.size());
  if (token_.empty() || (bearer.starts_with("Bearer ") && same_secret(bearer.substr(7), token_)))
    return std::nullopt;
  // A proxy, such as that of Kubernetes' API server, takes the other one for itself.
  const auto own = head["X-Sluice-Token"];
  if (same_secret(std::string_view(own.data(), own.size()), token_)) return std::nullopt;
  return wire::error_response(401, "the platform's token is wanted: Authorization: Bearer …");
}

wire::HttpResponse Api::handle(const wire::HttpRequest& request, UnixMillis wall) {
  const auto target = wire::parse_target(request.target());
  if (!target.ok()) return wire::error_response(target.error());
  if (target->path == std::vector<std::string>{"metrics"} && request.method() == verb::get)
    return wire::text_response(metrics(control_), "text/plain; version=0.0.4; charset=utf-8");
  const auto answer = route(request, *target, wall);
  return answer.ok() ? wire::json_response(*answer) : wire::error_response(answer.error());
}

Result<json> Api::route(const wire::HttpRequest& request, const wire::Target& target,
                        UnixMillis wall) {
  const auto& path = target.path;
  const verb method = request.method();
  const Error missing{ErrorKind::kNotFound,
                      "no such path: " + std::string(request.method_string()) + " " +
                          std::string(request.target())};
  if (path.size() < 2 || path[0] != "v1") return missing;
  const std::string& kind = path[1];
  if (method == verb::get && path.size() == 2) {
    if (kind == "functions")
      return target.get("brief") == "1" ? brief_function_rows(control_, wall)
                                        : function_rows(control_, wall);
    if (kind == "revisions") return revision_rows(control_, target.get("function"));
    if (kind == "instances") return instance_rows(control_, wall);
    if (kind == "devices") return device_rows(control_, wall);
    if (kind == "nodes") return node_rows(control_, wall);
    if (kind == "plans") return plan_rows(control_, wall);
    if (kind == "decisions") return decisions(target);
    if (kind == "history") return history(control_, target.get("after"));
    if (kind == "report") return control::report(control_);
    if (kind == "status") return control::status(control_);
    if (kind == "profiles") {
      json out = json::array();
      for (const auto& [key, profile] : control_.profiles().all()) out.push_back(to_json(profile));
      return out;
    }
  }
  if (method == verb::get && path == std::vector<std::string>{"v1", "metrics", "targets"})
    return scrape_targets(control_);
  // Makes the loop poll at once (serving.cc): a user has changed something at the node.
  if (kind == "turns" && path.size() == 2 && method == verb::post) return json::object();
  if (kind == "profiles" && path.size() == 2 && method == verb::put) {
    SLUICE_ASSIGN(body, wire::parse_json(request.body()));
    SLUICE_ASSIGN(profile, profile_from(body));
    SLUICE_TRY(control_.set_profile(profile));
    return json{{"points", profile.points.size()}};
  }
  if (kind == "functions" && path.size() >= 4) {
    const FunctionName name{path[2], path[3]};
    if (!control_.functions().contains(name) && !control_.apart().contains(name))
      return no_function(control_, name);
    if (path.size() == 4 && method == verb::get) return function_row(control_, name, wall);
    if (path.size() == 4 && method == verb::delete_) {
      SLUICE_ASSIGN(kept, requests_.remove(name, wall, target.get("with_model") == "true"));
      json out{{"deleted", to_string(name)}};
      if (!kept.empty()) out["kept"] = kept;
      return out;
    }
    if (path.size() == 5 && path[4] == "rollback" && method == verb::post) {
      int to = 0;
      if (!request.body().empty()) {
        SLUICE_ASSIGN(body, wire::parse_json(request.body()));
        wire::Fields f(body, "rollback");
        SLUICE_ASSIGN(checked, f.finish(static_cast<int>(f.integer("to", 0, 0, 1'000'000'000))));
        to = checked;
      }
      SLUICE_ASSIGN(back, requests_.rollback(name, to, wall));
      return json{
          {"function", to_string(name)}, {"revision", back.revision}, {"assumed", back.assumed}};
    }
    if (path.size() == 5 && path[4] == "checkpoints" && method == verb::get)
      return checkpoint_rows(control_, name);
    if (path.size() == 5 && path[4] == "resume" && method == verb::post &&
        !request.body().empty()) {
      SLUICE_ASSIGN(body, wire::parse_json(request.body()));
      wire::Fields f(body, "resume");
      constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
      SLUICE_ASSIGN(step, f.finish(f.integer("from", -1, 0, kMost)));
      if (step < 0)
        SLUICE_TRY(requests_.set_paused(name, false, wall));
      else
        SLUICE_TRY(requests_.resume_from(name, step, wall));
      return json{{"function", to_string(name)}, {"paused", false}, {"from", step}};
    }
    if (path.size() == 5 && (path[4] == "pause" || path[4] == "resume") && method == verb::post) {
      SLUICE_TRY(requests_.set_paused(name, path[4] == "pause", wall));
      return json{{"function", to_string(name)}, {"paused", path[4] == "pause"}};
    }
    if (path.size() == 5 && path[4] == "rates" && method == verb::get) {
      SLUICE_ASSIGN(span, to_int(target.get("seconds"), "seconds", 300));
      SLUICE_ASSIGN(samples, control_.journal().rates(name, wall / 1000 - span));
      json out = json::array();
      for (const RateSample& s : samples)
        out.push_back({{"second", s.second},
                       {"rate", s.rate},
                       {"queued", s.queued},
                       {"in_flight", s.in_flight},
                       {"violations", s.violations}});
      return out;
    }
  }
  if (kind == "devices" && path.size() >= 4 && method == verb::post &&
      (path.back() == "drain" || path.back() == "undrain")) {
    std::string named = path[2];  // of a cluster's: NODE/DEVICE
    for (size_t k = 3; k + 1 < path.size(); ++k) named += "/" + path[k];
    const bool drains = path.back() == "drain";
    SLUICE_ASSIGN(device, device_named(control_.seen().devices, named));
    SLUICE_TRY(requests_.set_drained(device, drains, wall));
    return json{{"device", device}, {"drained", drains}};
  }
  return missing;
}

bool Api::is_apply(const wire::HttpRequest& request) {
  const auto target = wire::parse_target(request.target());
  return request.method() == verb::post && target.ok() &&
         target->path == std::vector<std::string>{"v1", "functions"};
}

Result<Api::FunctionsRead> Api::read_functions(const wire::HttpRequest& request,
                                               Models& models) const {
  SLUICE_ASSIGN(target, wire::parse_target(request.target()));
  const bool for_cluster = target.get("place") == "cluster";
  const std::string home = target.get("home", home_);
  const std::string folder = target.get("folder");
  for (const auto& [key, path] : {std::pair("home", home), std::pair("folder", folder)})
    if (printable(path, SIZE_MAX) != path)
      return Error{ErrorKind::kInvalid, std::string(key) + ": " + printable(path) +
                                            ": its name has bytes that are not UTF-8, or control "
                                            "characters: models there cannot be named"};
  const FileContext context{.file = target.get("file", "-"),
                            .folder = folder,
                            .home = home,
                            .models = for_cluster ? "" : folder_of_models(home),
                            .for_cluster = for_cluster};
  FunctionsRead read;
  SLUICE_ASSIGN(specs, parse_functions(request.body(), context,
                                       [&](ModelSpec& model) { return models.check(model); }));
  for (FunctionSpec& spec : specs) {
    if (const Training* training = control_.training(); training != nullptr && !spec.is_inference())
      if (const auto reached = training->check(spec.training()); !reached.ok())
        return within(to_string(spec.name), reached.error());
    if (spec.model().path.empty()) continue;  // its program brings its own
    for (ModelSpec* model : models_of(spec)) {
      if (is_dry(target)) {
        SLUICE_TRY(models.identify(*model));
        continue;
      }
      auto kept = models.keep(*model);
      if (!kept.ok()) return within(to_string(spec.name), kept.error());
      read.copies.push_back(std::move(*kept));
    }
    if (spec.is_inference() && !spec.inference().variants.empty())
      spec.model() = *models_of(spec).front();
  }
  read.specs = std::move(specs);
  return read;
}

wire::HttpResponse Api::apply(const wire::HttpRequest& request, const Result<FunctionsRead>& read,
                              UnixMillis wall) {
  const auto answer = applied(request, read, wall);
  return answer.ok() ? wire::json_response(*answer) : wire::error_response(answer.error());
}

Result<json> Api::applied(const wire::HttpRequest& request, const Result<FunctionsRead>& read,
                          UnixMillis wall) {
  if (!read.ok()) return read.error();
  SLUICE_ASSIGN(target, wire::parse_target(request.target()));
  SLUICE_ASSIGN(all, requests_.apply(read->specs, is_dry(target), wall));
  json results = json::array();
  for (const Applied& a : all)
    results.push_back({{"function", to_string(a.function)},
                       {"revision", a.revision},
                       {"action", a.what},
                       {"difference", a.difference},
                       {"warnings", a.warnings}});
  return json{{"results", results}};
}

Result<json> Api::decisions(const wire::Target& target) const {
  SLUICE_ASSIGN(limit, to_int(target.get("limit"), "limit", 50));
  SLUICE_ASSIGN(after, to_int(target.get("after"), "after", 0));
  const std::string of = target.get("function");
  if (!target.get("after").empty())  // numbers have few gaps, if any: no more than these are later
    limit = static_cast<int>(std::clamp<int64_t>(control_.decisions().newest() - after, 0, limit));
  if (limit == 0) return json::array();
  SLUICE_ASSIGN(found, control_.journal().decisions(
                           of.empty() ? std::nullopt : std::optional(function_name(of)), limit));
  json out = json::array();
  for (const Decision& d : found)
    if (d.number > after) out.push_back(to_json(d));
  return out;
}

}  // namespace sluice::control
