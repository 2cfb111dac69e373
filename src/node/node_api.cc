#include "node/node_api.h"

#include <algorithm>

#include "store/process.h"
#include "wire/json/birth_json.h"

namespace sluice::node {
namespace {

using nlohmann::json;
using wire::HttpRequest;
using wire::HttpResponse;
using wire::http::verb;

constexpr int64_t kLongestDrainMs = 3'600'000;
constexpr int64_t kLongestWaitMs = 60'000;

std::optional<Position> optional_position(wire::Fields& f) {
  if (f.child("position") == nullptr) return std::nullopt;
  return f.part<Position>("position", wire::position_from);
}

std::string known_arbiter(wire::Fields& f) {
  std::string name = f.text("arbiter");
  const std::vector<std::string> all = policy::arbiter_names();
  if (name.empty() || std::ranges::find(all, name) != all.end()) return name;
  std::string allowed;
  for (const std::string& a : all) allowed += (allowed.empty() ? "" : ", ") + a;
  f.fail("arbiter", "'" + name + "' is none of " + allowed);
  return "";
}

Slice required_slice(wire::Fields& f) {
  if (f.child("slice") == nullptr) f.fail("slice", "is missing");
  return f.part<Slice>("slice", wire::slice_from);
}

Result<PartRequest> part_request_from(const json& j) {
  wire::Fields f(j, "part");
  return f.finish(PartRequest{f.text("device"), required_slice(f), optional_position(f)});
}

// Reads "parts", or in its place the fields of the only one.
std::vector<PartRequest> part_requests(wire::Fields& f) {
  if (f.child("parts") == nullptr)
    return {{f.text("device"), required_slice(f), optional_position(f)}};
  std::vector<PartRequest> parts = f.parts("parts", part_request_from);
  if (parts.empty()) f.fail("parts", "is empty; an instance has at least one");
  return parts;
}

HttpResponse answer(const Result<const InstanceRecord*>& r, int status) {
  return r.ok() ? wire::json_response(to_json(**r), status) : wire::error_response(r.error());
}

HttpResponse answer_program(const Daemon& daemon, const Result<const InstanceRecord*>& r,
                            int status = 200) {
  if (!r.ok()) return wire::error_response(r.error());
  const ProgramEnvironment e = daemon.environment(**r);
  json out = to_json(**r);
  out.update(
      {{"preload", e.preload}, {"library_path", e.library_path}, {"environment", e.variables}});
  return wire::json_response(out, status);
}

HttpResponse answer(const Result<void>& r, int status) {
  return r.ok() ? wire::json_response(json::object(), status) : wire::error_response(r.error());
}

// Reads the request's JSON by `read`, and hands it to `act`.
template <class T, class Act>
HttpResponse with_body(const HttpRequest& request, Result<T> (*read)(const json&), Act act) {
  Result<json> body = wire::parse_json(request.body().empty() ? "{}" : request.body());
  if (!body.ok()) return wire::error_response(body.error());
  Result<T> parsed = read(*body);
  if (!parsed.ok()) return wire::error_response(parsed.error());
  return act(*parsed);
}

Result<std::vector<PartRequest>> resizing_from(const json& body) {
  wire::Fields f(body, "resize");
  return f.finish(part_requests(f));
}

struct Stopping {
  Nanos drain{0};
  bool program = false;  // a foreign one as well
};
Result<Stopping> stopping_from(const json& body) {
  wire::Fields f(body, "stop");
  const Nanos drain = Millis(f.integer("drain_ms", 30'000, 0, kLongestDrainMs));
  return f.finish(Stopping{drain, f.boolean("program", false)});
}

Result<bool> drained_from(const json& body) {
  wire::Fields f(body, "device");
  if (f.child("drained") == nullptr) f.fail("drained", "is missing");
  return f.finish(f.boolean("drained", false));
}

HttpResponse on_instance(Daemon& daemon, const HttpRequest& request, const std::string& id) {
  switch (request.method()) {
    case verb::get: {
      const InstanceRecord* r = daemon.find(id);
      if (r == nullptr) return wire::error_response(404, "there is no instance '" + id + "'");
      return wire::json_response(to_json(*r));
    }
    case verb::patch:
      return with_body<std::vector<PartRequest>>(
          request, resizing_from,
          [&](const std::vector<PartRequest>& to) { return answer(daemon.resize(id, to), 200); });
    case verb::delete_:
      return with_body<Stopping>(request, stopping_from, [&](const Stopping& s) {
        return answer(s.program ? daemon.end_program(id, s.drain) : daemon.stop(id, s.drain), 202);
      });
    default:
      return wire::error_response(405, "an instance knows GET, PATCH and DELETE");
  }
}

// GET /v1/state?after=VERSION&wait_ms=N: answers at the next change, or after that long.
asio::awaitable<HttpResponse> state(Daemon& daemon, const wire::Target& target) {
  const uint64_t after = std::strtoull(target.get("after", "0").c_str(), nullptr, 10);
  const int64_t wait = std::strtoll(target.get("wait_ms", "0").c_str(), nullptr, 10);
  if (wait > 0) co_await daemon.change_after(after, Millis(std::min(wait, kLongestWaitMs)));
  co_return wire::json_response(to_json(daemon.view()));
}

HttpResponse route(Daemon& daemon, const HttpRequest& request, const wire::Target& target) {
  const std::vector<std::string>& path = target.path;
  const verb method = request.method();
  if (path == std::vector<std::string>{"v1", "instances"} && method == verb::post)
    return with_body<StartRequest>(request, start_request_from, [&](const StartRequest& q) {
      return answer(daemon.start(q), 202);
    });
  if (path == std::vector<std::string>{"v1", "processes"} && method == verb::post)
    return with_body<ProcessRequest>(request, process_request_from, [&](const ProcessRequest& q) {
      return answer_program(daemon, daemon.take_process(q));
    });
  if (path == std::vector<std::string>{"v1", "pods"} && method == verb::post)
    return with_body<PodRequest>(request, pod_request_from, [&](const PodRequest& q) {
      return answer_program(daemon, daemon.take_pod(q), 202);
    });
  if (path.size() == 3 && path[0] == "v1" && (path[1] == "instances" || path[1] == "processes"))
    return on_instance(daemon, request, path[2]);
  if (path.size() == 3 && path[0] == "v1" && path[1] == "devices" && method == verb::patch)
    return with_body<bool>(request, drained_from, [&](bool drained) {
      return answer(daemon.set_drained(path[2], drained), 200);
    });
  return wire::error_response(404, "there is no " + std::string(request.method_string()) + " " +
                                       std::string(request.target()) + " here");
}

}  // namespace

json to_json(const InstanceRecord& r) {
  json out = wire::to_json(r.instance);
  out.update({{"foreign", r.foreign},
              {"pid", r.process.pid},
              {"start_time", r.process.start_time},
              {"siblings", siblings_json(r)},
              {"pod", r.pod},
              {"uid", r.uid},
              {"socket", r.socket},
              {"log", r.log},
              {"ready_after_ms", r.ready_after_ms},
              {"ended", r.ended},
              {"device_fault", r.device_fault},
              {"error", r.error},
              {"stopped", r.stopped},
              {"node_fault", r.node_fault}});
  return out;
}

json to_json(const DaemonView& view) {
  json out = {{"boot_id", view.boot_id},         {"generation", view.generation},
              {"version", view.version},         {"backstop", view.backstop},
              {"enforcement", view.enforcement}, {"devices", json::array()},
              {"instances", json::array()}};
  for (const Device& d : view.devices) {
    json one = wire::to_json(d);
    if (const auto load = view.loads.find(d.id); load != view.loads.end()) {
      const GpuLoad& now = load->second;
      one.update({{"busy_percent", now.busy_percent}, {"memory_used", now.memory_used}});
      if (now.sm_occupancy) one["sm_occupancy"] = now.sm_occupancy->permille;
    }
    if (const auto why = view.undivided.find(d.id); why != view.undivided.end())
      one["undivided"] = why->second;
    out["devices"].push_back(std::move(one));
  }
  for (const DaemonView::Row& row : view.instances) {
    json one = to_json(row.record);
    one["used_ns"] = row.used.count();
    one["ungated_ns"] = row.ungated.count();
    one["peak_memory"] = row.peak_memory;
    if (!row.fault.empty()) one["error"] = row.fault;
    one["outside_ns"] = row.outside.count();
    if (row.memory_held) one["memory_held"] = *row.memory_held;
    out["instances"].push_back(std::move(one));
  }
  return out;
}

Result<StartRequest> start_request_from(const json& body) {
  wire::Fields f(body, "instance");
  StartRequest q;
  q.id = f.text("id");
  q.function = function_name(f.text("function"));
  q.revision = static_cast<int>(f.integer("revision", 1, 1, INT32_MAX));
  q.parts = part_requests(f);
  q.batch = static_cast<int>(f.integer("batch", 1, 1, 65536));
  q.arbiter = known_arbiter(f);
  q.birth = wire::birth_from(f);
  q.log = f.text("log");
  q.owner = static_cast<pid_t>(f.integer("owner", 0, 0, INT32_MAX));
  if (q.function.name.empty() || q.function.name.size() > 255)
    f.fail("function", "must be NAMESPACE/NAME, NAME of 1 to 255 characters");
  return f.finish(std::move(q));
}

Result<ProcessRequest> process_request_from(const json& body) {
  wire::Fields f(body, "process");
  ProcessRequest q;
  q.id = f.text("id");
  q.pid = static_cast<pid_t>(f.integer("pid", 0, 1, INT32_MAX));
  if (const std::string function = f.text("function"); !function.empty())
    q.function = function_name(function);
  if (to_string(q.function).size() > kLongestOwner)
    f.fail("function", "is longer than " + std::to_string(kLongestOwner) + " bytes");
  q.parts = part_requests(f);
  return f.finish(std::move(q));
}

Result<PodRequest> pod_request_from(const json& body) {
  wire::Fields f(body, "pod");
  PodRequest q{.uid = f.text("uid"), .name = f.text("name"), .part = part_requests(f).front()};
  if (q.uid.empty()) f.fail("uid", "is missing");
  if (q.name.empty()) f.fail("name", "is missing");
  const std::string kind = f.text("kind", "cpu");
  if (kind != "cpu" && kind != "cuda") f.fail("kind", "'" + kind + "' is neither cpu nor cuda");
  if (kind == "cuda") q.kind = DeviceKind::kCuda;
  return f.finish(std::move(q));
}

wire::HttpHandler node_api(Daemon& daemon) {
  return [&daemon](HttpRequest request) -> asio::awaitable<HttpResponse> {
    const Result<wire::Target> target = wire::parse_target(request.target());
    if (!target.ok()) co_return wire::error_response(target.error());
    if (target->path == std::vector<std::string>{"v1", "state"} && request.method() == verb::get)
      co_return co_await state(daemon, *target);
    co_return route(daemon, request, *target);
  };
}

}  // namespace sluice::node
