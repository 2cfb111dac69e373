#include "cli/profile_run.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <thread>

#include "base/replace_file.h"
#include "cli/kept_trials.h"
#include "cli/listing.h"
#include "cli/load_run.h"
#include "cli/payload.h"
#include "cli/profile_plan.h"
#include "control/local/model_copies.h"
#include "model/server_kind.h"
#include "wire/json/birth_json.h"
#include "wire/json/json.h"
#include "wire/json/model_description.h"

namespace sluice::cli {
namespace {

using nlohmann::json;
using wire::http::verb;

bool is_set(const std::atomic<bool>* stop) {
  return stop != nullptr && *stop;
}

// The measured instance; stopped and forgotten when this goes.
class Subject {
 public:
  Subject(wire::HttpClient& node, std::string id) : node_(node), id_(std::move(id)) {}
  ~Subject() { (void)node_.json(verb::delete_, "/v1/instances/" + id_, {{"drain_ms", 1000}}); }

  // Returns its state once it is ready, or `stop` is set.
  Result<json> wait_ready(Nanos patience, const std::atomic<bool>* stop) {
    for (Nanos waited{0}; waited < patience; waited += Millis(100)) {
      SLUICE_ASSIGN(state, node_.json(verb::get, "/v1/instances/" + id_));
      const std::string now = state.value("state", "");
      if (now == "ready" || is_set(stop)) return state;
      if (now != "starting")
        return Error{ErrorKind::kInternal,
                     "the instance to measure ended: " + state.value("error", "")};
      std::this_thread::sleep_for(Millis(100));
    }
    return Error{ErrorKind::kTimeout, "the instance to measure was not ready within " +
                                          std::to_string(patience / Seconds(1)) + " s"};
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

constexpr Share kLeastQuota{200};  // a measurement with less says little

// Quotas above the free time are replaced by it.
ProfilePlan points_of(const Sweep& sweep, const ProfileRoom& room) {
  std::vector<Share> widths{kWhole}, quotas;
  if (room.device.can_resize_sm)
    for (Share s = room.device.sm_quantum; s < kWhole; s = s + room.device.sm_quantum)
      widths.push_back(s);
  for (const Share q : sweep.quotas) quotas.push_back(std::min(q, room.quota));
  std::ranges::sort(quotas, std::greater());
  quotas.erase(std::unique(quotas.begin(), quotas.end()), quotas.end());
  std::vector<int> batches = sweep.batches;
  std::ranges::sort(batches);
  ProfilePlan plan{.per_point = sweep.per_point};
  for (const Share quota : quotas)
    for (const Share sm : widths)
      for (const int batch : batches) plan.points.push_back({batch, sm, quota});
  return plan;
}

// What a plan may try: tenths of the device's time, which Dilu's search goes by.
profile::Grid grid_of(const Sweep& sweep, const ProfileRoom& room) {
  profile::Grid grid{.batches = sweep.batches};
  std::ranges::sort(grid.batches);
  if (room.device.can_resize_sm)
    for (Share s = room.device.sm_quantum; s < kWhole; s = s + room.device.sm_quantum)
      grid.sms.push_back(s);
  grid.sms.push_back(kWhole);
  for (int tenth = 1; tenth <= 10; ++tenth)
    if (const Share q{tenth * 100}; q <= room.quota) grid.quotas.push_back(q);
  return grid;
}

wire::HttpRequest request_with(const std::string& served, const Payload& payload) {
  wire::HttpRequest request{verb::post, "/v2/models/" + served + "/infer", 11};
  request.set("Inference-Header-Content-Length", std::to_string(payload.json_bytes));
  request.set(wire::http::field::content_type, "application/octet-stream");
  request.body() = payload.body;
  return request;
}

// Of a program: a path of its own, or a body as it wants it.
wire::HttpRequest request_by_path(const Sweep& sweep, const std::string& path) {
  wire::HttpRequest request{sweep.body.empty() ? verb::get : verb::post, path, 11};
  request.body() = sweep.body;
  return request;
}

Result<MeasuredPoint> measure(wire::HttpClient& instance, const wire::HttpRequest& request,
                              const Configuration& at, Nanos at_least,
                              const std::atomic<bool>* stop) {
  const SteadyClock clock;
  std::vector<Nanos> times;
  Time begin = clock.now();
  // The first one warms.
  for (int i = -1; i < ProfilePlan::kLeastRuns || clock.now() - begin < at_least; ++i) {
    if (is_set(stop)) return Error{ErrorKind::kConflict, "interrupted"};
    const Time sent = clock.now();
    SLUICE_ASSIGN(answer, instance.send(request));
    if (answer.result_int() / 100 != 2)
      return Error{ErrorKind::kInternal, "batch " + std::to_string(at.batch) + ": " +
                                             std::to_string(answer.result_int()) + " " +
                                             answer.body().substr(0, 200)};
    if (i < 0)
      begin = clock.now();
    else
      times.push_back(clock.now() - sent);
  }
  const Nanos elapsed = clock.now() - begin;
  return MeasuredPoint{at, quantile(times, 0.5), quantile(times, 0.95),
                       at.batch * static_cast<double>(times.size()) / seconds(elapsed)};
}

// The model server reads a model's inputs and outputs from the file beside it. If only the
// function's file has them, this is a folder with that file and a link to the model. A program's
// working folder is copied to one. It goes with this object.
class Described {
 public:
  explicit Described(const ModelSpec& model) : model_(model) {}
  ~Described() {
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }
  Described(const Described&) = delete;

  Result<ModelSpec> ready() {
    namespace fs = std::filesystem;
    const fs::path path = model_.path;
    if (fs::exists(fs::path(path).replace_extension(".json"))) return model_;
    SLUICE_TRY(folder(0700));
    std::error_code fault;
    ModelSpec described = model_;
    described.path = folder_ / path.filename();
    fs::create_symlink(path, described.path, fault);
    if (fault) return Error{ErrorKind::kInternal, described.path + ": " + fault.message()};
    const json all = wire::to_json(model_);
    SLUICE_TRY(replace_file(fs::path(described.path).replace_extension(".json"),
                            json{{"inputs", all["inputs"]}, {"outputs", all["outputs"]}}.dump()));
    return described;
  }

  // Returns a folder of its own, which is made.
  Result<std::string> folder(mode_t mode) {
    char name[] = "/tmp/sluice-profile-XXXXXX";
    if (mkdtemp(name) == nullptr || chmod(name, mode) != 0)
      return Error{ErrorKind::kInternal, std::string("/tmp: ") + std::strerror(errno)};
    folder_ = name;
    return std::string(name);
  }

 private:
  const ModelSpec model_;
  std::filesystem::path folder_;
};

// What the instance runs, as its node finds it, and its name and content.
struct Measured {
  ModelSpec named, started;
};
Result<Measured> started_model(const FunctionSpec& spec, Described& described) {
  Measured m{spec.inference().model, {}};
  if (m.named.format == kProgram) {
    SLUICE_ASSIGN(folder, described.folder(0711));
    control::ModelCopies copies("", nullptr, folder);
    if (const auto kept = copies.keep(m.named); !kept.ok()) return kept.error();
    m.started = copies.for_start(m.named);
    return m;
  }
  SLUICE_TRY(control::ModelCopies("").identify(m.named));
  SLUICE_ASSIGN(started, described.ready());
  m.started = std::move(started);
  return m;
}

// The instance to measure, and how.
class Measuring {
 public:
  Measuring(Subject& subject, wire::HttpClient& instance, const FunctionName& name,
            const FunctionSpec& spec, const Sweep& sweep,
            const std::function<void(const ProfileProgress&)>& progress,
            const std::atomic<bool>* stop, KeptTrials& kept, Bytes memory, json inputs)
      : subject_(subject),
        instance_(instance),
        served_(served_name(name)),
        asks_by_path_(spec.inference().model.program.http),
        sweep_(sweep),
        progress_(progress),
        stop_(stop),
        kept_(kept),
        begin_(clock_.now()),
        inputs_(std::move(inputs)) {
    slice_.memory = memory;
  }

  // Every point that fits the budget, until `stop`.
  Result<std::vector<MeasuredPoint>> all_of(ProfilePlan plan) {
    for (size_t i = 0; i < plan.points.size(); ++i) {
      const Configuration& at = plan.points[i];
      const bool fits = sweep_.budget == Nanos(0) || points_.empty() ||
                        clock_.now() - begin_ + plan.estimate(at) <= sweep_.budget;
      if (!fits) continue;
      SLUICE_TRY(try_at(at));
      if (is_set(stop_)) break;
      plan.learn(points_.back());
      tell(plan.points.size(), plan.left_after(i + 1));
    }
    return std::move(points_);
  }

  // What the plan asks for, until it or the budget ends. `most`: more time of the device is not
  // free.
  Result<std::vector<MeasuredPoint>> searched(const profile::Search& search, Share most) {
    profile::Trials trials;
    for (size_t i = 0; i < static_cast<size_t>(sweep_.most_trials); ++i) {
      if (sweep_.budget > Nanos(0) && clock_.now() - begin_ >= sweep_.budget) break;
      const auto at = sweep_.plan->next(search, trials);
      if (!at) break;
      trials.push_back({.at = *at});
      if (at->quota > most) continue;
      SLUICE_TRY(try_at(*at));
      if (is_set(stop_)) break;
      trials.back() = points_.back();
      tell(points_.size(), Nanos(0));
    }
    return std::move(points_);
  }

 private:
  // Adds the point, unless `stop` came first.
  Result<void> try_at(const Configuration& at) {
    if (const MeasuredPoint* before = kept_.find(at)) {
      points_.push_back(*before);
      return {};
    }
    if (slice_.sm != at.sm || slice_.quota.request != at.quota) {
      slice_.sm = at.sm;
      slice_.quota = {at.quota, at.quota};
      SLUICE_TRY(subject_.resize(slice_));
    }
    SLUICE_ASSIGN(request, request_for(at.batch));
    auto point = measure(instance_, request, at, sweep_.per_point, stop_);
    if (is_set(stop_)) return {};
    if (!point.ok()) return point.error();
    points_.push_back(*point);
    kept_.keep(*point);
    return {};
  }

  Result<wire::HttpRequest> request_for(int batch) const {
    if (asks_by_path_) return request_by_path(sweep_, sweep_.path);
    if (!sweep_.body.empty()) return request_by_path(sweep_, "/v2/models/" + served_ + "/infer");
    if (inputs_.empty())
      return Error{ErrorKind::kInvalid,
                   "--body: a request's JSON is wanted, for the program describes no inputs"};
    SLUICE_ASSIGN(payload, make_payload(inputs_, batch, 7));
    return request_with(served_, payload);
  }

  void tell(size_t total, Nanos left) const {
    if (sweep_.budget > Nanos(0))
      left = std::clamp(sweep_.budget - Nanos(clock_.now() - begin_), Nanos(0), left);
    if (progress_)
      progress_({points_.back(), static_cast<int>(points_.size()), static_cast<int>(total), left,
                 static_cast<int>(kept_.count())});
  }

  Subject& subject_;
  wire::HttpClient& instance_;
  const std::string served_;
  const bool asks_by_path_;
  const Sweep& sweep_;
  const std::function<void(const ProfileProgress&)>& progress_;
  const std::atomic<bool>* const stop_;
  KeptTrials& kept_;
  const SteadyClock clock_;
  const Time begin_;
  const json inputs_;
  Slice slice_{.sm = kWhole, .quota = {kNone, kNone}};
  std::vector<MeasuredPoint> points_;
};

// Returns the inputs that a program of the protocol describes.
Result<json> described_inputs(wire::HttpClient& instance, const std::string& served) {
  const auto described = instance.json(verb::get, "/v2/models/" + served);
  json inputs = json::array();
  if (!described.ok() || !described->is_object()) return inputs;
  for (const json& each : described->value("inputs", json::array())) {
    SLUICE_ASSIGN(tensor, wire::tensor_spec_from(each));
    for (const auto& [field, why] : wire::tensor_problems(tensor, wire::kTorchscript))
      return Error{ErrorKind::kInvalid, "the program's input " + field + ": " + why};
    inputs.push_back(wire::to_json(tensor));
  }
  return inputs;
}

// Returns the inputs that a request is made up for.
Result<json> inputs_to_make_up(const ModelSpec& model, const Sweep& sweep,
                               wire::HttpClient& instance, const std::string& served) {
  if (model.format == kProgram && !model.program.http && sweep.body.empty())
    return described_inputs(instance, served);
  json inputs = json::array();
  for (const TensorSpec& t : model.inputs) inputs.push_back(wire::to_json(t));
  return inputs;
}

// What becomes an instance's limit. (On a CPU the node allows 64 MiB more.)
Bytes memory_of(const json& instance, const Device& device) {
  if (device.kind == DeviceKind::kCpu) return instance.value("peak_memory", Bytes{0});
  constexpr Bytes kSlack = Bytes{64} << 20;
  const Bytes held = instance.value("memory_held", Bytes{0});
  return held > 0 ? std::min(held + kSlack, device.memory) : 0;
}

// "cuda0" of "node/cuda0".
std::string device_part(const DeviceId& id) {
  return id.substr(id.rfind('/') + 1);  // npos + 1 is 0
}

}  // namespace

Result<std::vector<ProfileRoom>> rooms_to_measure(const json& state, const FunctionSpec& spec) {
  std::vector<ProfileRoom> rooms;
  std::string holders;  // a line per device
  for (const json& d : state["devices"]) {
    SLUICE_ASSIGN(device, wire::device_from(d));
    if (device.drained || !spec.runs_on(device.kind)) continue;
    int64_t held = 0;
    Bytes memory = device.memory;
    std::string names;
    for (const json& i : by_part(state["instances"])) {
      if (i.value("device", "") != device.id || i.value("state", "gone") == "gone") continue;
      held += i["slice"].value("request", 0) * i["slice"].value("sm", 0) / kWhole.permille;
      memory -= i["slice"].value("memory", Bytes{0});
      names += (names.empty() ? "" : ", ") + i.value("id", "");
    }
    const Share left{static_cast<int>(std::max<int64_t>(0, kWhole.permille - held) / 10 * 10)};
    holders += "\n  " + device.id + ": " + names;
    if (left < kLeastQuota || (device.kind == DeviceKind::kCuda && memory <= 0)) continue;
    const auto same_type = [&](const ProfileRoom& r) {
      return type_of(r.device) == type_of(device);
    };
    const auto known = std::ranges::find_if(rooms, same_type);
    if (known == rooms.end())
      rooms.push_back({device, left, memory});
    else if (left > known->quota)
      *known = {device, left, memory};
  }
  if (holders.empty())
    return Error{ErrorKind::kInvalid,
                 "device: there is none here that it may run on and that is not cordoned"};
  if (!rooms.empty()) return rooms;
  return Error{ErrorKind::kExhausted,
               "no device has a fifth of its time left to measure on. To make room, delete a "
               "function that holds one, or end a program of `sluice run`:" +
                   holders};
}

Result<control::Profile> profile_model(const std::string& node_socket, const ProfileRoom& room,
                                       const FunctionSpec& spec, const Sweep& sweep,
                                       const std::function<void(const ProfileProgress&)>& progress,
                                       const std::atomic<bool>* stop, const std::string& data) {
  wire::HttpClient node({.path = node_socket}, Seconds(30));
  const int most = *std::ranges::max_element(sweep.batches);
  const FunctionName name{"sluice-profile", spec.name.name};
  const std::string id = "profile-" + spec.name.name + "-" + std::to_string(getpid()) + "-" +
                         device_part(room.device.id);
  Slice slice{.sm = kWhole, .quota = {room.quota, room.quota}};
  if (room.device.kind == DeviceKind::kCuda)
    slice.memory = spec.memory > 0 ? std::min(spec.memory, room.memory) : room.memory;
  Described described(spec.inference().model);
  SLUICE_ASSIGN(model, started_model(spec, described));
  const ModelSpec& named = model.named;
  json order = {{"id", id},
                {"function", to_string(name)},
                {"revision", 1},
                {"device", room.device.id},
                {"slice", wire::to_json(slice)},
                {"batch", most},
                {"owner", getpid()}};
  order.update(wire::to_json(kind_of(named).birth(model.started, {.max_size = most})));
  const auto started = node.json(verb::post, "/v1/instances", order);
  if (!started.ok()) return started.error();
  Subject subject(node, id);
  control::Profile profile{.model = named.path,
                           .content = named.content,
                           .device = type_of(room.device),
                           .function = spec.name,
                           .memory = 0,
                           .points = {},
                           .conditions = conditions_here(),
                           .measured_at = unix_now()};
  control::Profile kept_as = profile;  // shorter trials say less
  kept_as.conditions += ", " + std::to_string(sweep.per_point / Millis(1)) + " ms a point";
  KeptTrials kept(data.empty() ? "" : data + "/trials", kept_as, profile.measured_at);
  SLUICE_ASSIGN(ready, subject.wait_ready(spec.model().program.start_timeout, stop));
  if (is_set(stop)) return profile;
  SLUICE_ASSIGN(address, wire::parse_endpoint(ready.value("socket", "")));
  wire::HttpClient instance(address, Seconds(120));
  SLUICE_ASSIGN(inputs,
                inputs_to_make_up(spec.inference().model, sweep, instance, served_name(name)));
  Measuring measuring(subject, instance, name, spec, sweep, progress, stop, kept, slice.memory,
                      std::move(inputs));
  SLUICE_ASSIGN(points,
                sweep.plan == nullptr
                    ? measuring.all_of(points_of(sweep, room))
                    : measuring.searched({grid_of(sweep, room), sweep.in_time}, room.quota));
  profile.points = std::move(points);
  kept.forget();
  if (const auto state = node.json(verb::get, "/v1/state"); state.ok())
    for (const json& i : (*state)["instances"])
      if (i.value("id", "") == id) profile.memory = memory_of(i, room.device);
  return profile;
}

}  // namespace sluice::cli
