#include "cli/profile_run.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "cli/load_run.h"
#include "cli/payload.h"
#include "wire/json.h"

namespace sluice::cli {
namespace {

using nlohmann::json;
using wire::http::verb;

// The instance that is measured; stopped and forgotten when this goes.
class Subject {
 public:
  Subject(wire::HttpClient& node, std::string id) : node_(node), id_(std::move(id)) {}
  ~Subject() { (void)node_.json(verb::delete_, "/v1/instances/" + id_, {{"drain_ms", 1000}}); }

  Result<json> wait_ready() {
    for (int waited = 0; waited < 1200; ++waited) {
      SLUICE_ASSIGN(state, node_.json(verb::get, "/v1/instances/" + id_));
      const std::string now = state.value("state", "");
      if (now == "ready") return state;
      if (now != "starting")
        return Error{ErrorKind::kInternal,
                     "the instance to measure ended: " + state.value("error", "")};
      std::this_thread::sleep_for(Millis(100));
    }
    return Error{ErrorKind::kTimeout, "the instance to measure was not ready within two minutes"};
  }

  Result<void> resize(const Slice& slice) {
    const auto resized =
        node_.json(verb::patch, "/v1/instances/" + id_, {{"slice", wire::to_json(slice)}});
    if (!resized.ok()) return resized.error();
    return {};
  }

 private:
  wire::HttpClient& node_;
  const std::string id_;
};

Result<Device> free_device(wire::HttpClient& node) {
  SLUICE_ASSIGN(state, node.json(verb::get, "/v1/state"));
  for (const json& d : state["devices"]) {
    const bool taken = std::ranges::any_of(state["instances"], [&](const json& i) {
      return i.value("device", "") == d.value("id", "") && i.value("state", "gone") != "gone";
    });
    if (!taken && !d.value("drained", false) && d.value("kind", "cpu") == "cpu")
      return wire::device_from(d);
  }
  return Error{ErrorKind::kExhausted,
               "no device is wholly free to measure on: profile before functions are deployed, or "
               "drain a device"};
}

Result<predict::ProfilePoint> measure(wire::HttpClient& instance, const std::string& served,
                                      const Payload& payload, const Configuration& at,
                                      Nanos at_least) {
  wire::HttpRequest request{verb::post, "/v2/models/" + served + "/infer", 11};
  request.set("Inference-Header-Content-Length", std::to_string(payload.json_bytes));
  request.set(wire::http::field::content_type, "application/octet-stream");
  request.body() = payload.body;
  const SteadyClock clock;
  std::vector<Nanos> times;
  Time begin = clock.now();
  for (int i = -1; i < 3 || clock.now() - begin < at_least; ++i) {  // the first one warms
    const Time sent = clock.now();
    SLUICE_ASSIGN(answer, instance.send(request));
    if (answer.result_int() != 200)
      return Error{ErrorKind::kInternal, "batch " + std::to_string(at.batch) + ": " +
                                             std::to_string(answer.result_int()) + " " +
                                             answer.body().substr(0, 200)};
    if (i < 0)
      begin = clock.now();
    else
      times.push_back(clock.now() - sent);
  }
  const Nanos elapsed = clock.now() - begin;
  return predict::ProfilePoint{at, quantile(times, 0.5), quantile(times, 0.95),
                               at.batch * static_cast<double>(times.size()) / seconds(elapsed)};
}

}  // namespace

Result<predict::Profile> profile_model(
    const std::string& node_socket, const FunctionSpec& spec, const Sweep& sweep,
    const std::function<void(const predict::ProfilePoint&)>& progress) {
  wire::HttpClient node({.path = node_socket}, Seconds(30));
  SLUICE_ASSIGN(device, free_device(node));
  const int most = *std::ranges::max_element(sweep.batches);
  const FunctionName name{"sluice-profile", spec.name.name};
  const std::string id = "profile-" + spec.name.name + "-" + std::to_string(getpid());
  Slice slice{.sm = kWhole, .quota = {kWhole, kWhole}};
  const auto started = node.json(verb::post, "/v1/instances",
                                 {{"id", id},
                                  {"function", to_string(name)},
                                  {"revision", 1},
                                  {"device", device.id},
                                  {"slice", wire::to_json(slice)},
                                  {"batch", most},
                                  {"owner", getpid()},
                                  {"model", wire::to_json(spec.model)},
                                  {"batching", {{"max_size", most}, {"max_delay_us", 0}}}});
  if (!started.ok()) return started.error();
  Subject subject(node, id);
  SLUICE_ASSIGN(ready, subject.wait_ready());
  wire::HttpClient instance({.path = ready.value("socket", "")}, Seconds(120));

  predict::Profile profile{.function = spec.name, .revision = 1};
  std::vector<Share> widths;
  if (device.can_resize_sm)
    for (Share s = device.sm_quantum; s < kWhole; s = s + device.sm_quantum) widths.push_back(s);
  widths.push_back(kWhole);
  json inputs = json::array();
  for (const TensorSpec& t : spec.model.inputs) inputs.push_back(wire::to_json(t));
  for (const Share sm : widths)
    for (const Share quota : sweep.quotas) {
      slice.sm = sm;
      slice.quota = {quota, quota};
      SLUICE_TRY(subject.resize(slice));
      for (const int batch : sweep.batches) {
        SLUICE_ASSIGN(payload, make_payload(inputs, batch, 7));
        SLUICE_ASSIGN(point, measure(instance, served_name(name), payload, {batch, sm, quota},
                                     sweep.per_point));
        if (progress) progress(point);
        profile.points.push_back(point);
      }
    }
  if (const auto state = node.json(verb::get, "/v1/state"); state.ok())
    for (const json& i : (*state)["instances"])
      if (i.value("id", "") == id) profile.memory = i.value("peak_memory", Bytes{0});
  return profile;
}

}  // namespace sluice::cli
