#include "cli/profile_run.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>

#include "base/replace_file.h"
#include "cli/kept_trials.h"
#include "cli/load_run.h"
#include "cli/profile_plan.h"
#include "cli/profile_requests.h"
#include "cli/profile_subject.h"
#include "control/local/model_copies.h"
#include "model/server_kind.h"
#include "wire/json/birth_json.h"
#include "wire/json/json.h"
#include "wire/json/model_description.h"

namespace sluice::cli {
namespace {

using nlohmann::json;
using wire::http::verb;

// The node polls a GPU's occupancy every quarter of a second. A trial that lasts for two such
// periods ends with one that lies within it.
constexpr Nanos kOccupancyTakes = Millis(600);

bool is_set(const std::atomic<bool>* stop) {
  return stop != nullptr && *stop;
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

// The points of one profile, tried one after the other on one subject.
class Measuring {
 public:
  Measuring(Subject& subject, const ProfileRequests& requests, const Sweep& sweep,
            const std::function<void(const ProfileProgress&)>& progress,
            const std::atomic<bool>* stop, KeptTrials& kept, Bytes memory)
      : subject_(subject),
        requests_(requests),
        sweep_(sweep),
        progress_(progress),
        stop_(stop),
        kept_(kept),
        memory_(memory),
        begin_(clock_.now()) {}

  // Every point that fits the budget, until `stop`.
  Result<std::vector<MeasuredPoint>> all_of(ProfilePlan plan) {
    for (size_t i = 0; i < plan.points.size(); ++i) {
      const Configuration& at = plan.points[i];
      const bool fits = sweep_.budget == Nanos(0) || points_.empty() ||
                        spent() + plan.estimate(at) <= sweep_.budget;
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
      if (sweep_.budget > Nanos(0) && spent() >= sweep_.budget) break;
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
    const Time asked = clock_.now();
    SLUICE_TRY(subject_.take({.sm = at.sm, .quota = {at.quota, at.quota}, .memory = memory_}));
    begin_ += clock_.now() - asked;  // the budget is for trials, not for starts
    if (is_set(stop_)) return {};
    const auto point = measure(at);
    if (is_set(stop_)) return {};
    if (!point.ok()) return point.error();
    points_.push_back(*point);
    kept_.keep(*point);
    return {};
  }

  Result<MeasuredPoint> measure(const Configuration& at) {
    SLUICE_ASSIGN(request, requests_.of(at.batch));
    SLUICE_TRY(ask(request, at.batch));  // the first one warms
    SLUICE_ASSIGN(before, subject_.use());
    const Nanos at_least =
        before.occupancy ? std::max(sweep_.per_point, kOccupancyTakes) : sweep_.per_point;
    std::vector<Nanos> times;
    const Time begin = clock_.now();
    while (times.size() < ProfilePlan::kLeastRuns || clock_.now() - begin < at_least) {
      if (is_set(stop_)) return Error{ErrorKind::kConflict, "interrupted"};
      const Time sent = clock_.now();
      SLUICE_TRY(ask(request, at.batch));
      times.push_back(clock_.now() - sent);
    }
    const Nanos elapsed = clock_.now() - begin;
    SLUICE_ASSIGN(after, subject_.use());
    return MeasuredPoint{
        .at = at,
        .median = quantile(times, 0.5),
        .p95 = quantile(times, 0.95),
        .throughput = at.batch * static_cast<double>(times.size()) / seconds(elapsed),
        .utilisation = utilisation(after.busy - before.busy, elapsed),
        .occupancy = after.occupancy.value_or(kNone)};
  }

  Result<void> ask(const wire::HttpRequest& request, int batch) {
    SLUICE_ASSIGN(answer, subject_.http().send(request));
    if (answer.result_int() / 100 == 2) return {};
    return Error{ErrorKind::kInternal, "batch " + std::to_string(batch) + ": " +
                                           std::to_string(answer.result_int()) + " " +
                                           answer.body().substr(0, 200)};
  }

  Nanos spent() const { return clock_.now() - begin_; }

  void tell(size_t total, Nanos left) const {
    if (sweep_.budget > Nanos(0)) left = std::clamp(sweep_.budget - spent(), Nanos(0), left);
    if (progress_)
      progress_({points_.back(), static_cast<int>(points_.size()), static_cast<int>(total), left,
                 static_cast<int>(kept_.count())});
  }

  Subject& subject_;
  const ProfileRequests& requests_;
  const Sweep& sweep_;
  const std::function<void(const ProfileProgress&)>& progress_;
  const std::atomic<bool>* const stop_;
  KeptTrials& kept_;
  const Bytes memory_;
  const SteadyClock clock_;
  Time begin_;
  std::vector<MeasuredPoint> points_;
};

// "cuda0" of "node/cuda0".
std::string device_part(const DeviceId& id) {
  return id.substr(id.rfind('/') + 1);  // npos + 1 is 0
}

}  // namespace

Result<control::Profile> profile_model(const std::string& node_socket, const ProfileRoom& room,
                                       const FunctionSpec& spec, const Sweep& sweep,
                                       const std::function<void(const ProfileProgress&)>& progress,
                                       const std::atomic<bool>* stop, const std::string& data) {
  wire::HttpClient node({.path = node_socket}, Seconds(30));
  SLUICE_ASSIGN(widths, widths_in(room, sweep));
  const int most = *std::ranges::max_element(sweep.batches);
  const FunctionName name{"sluice-profile", spec.name.name};
  Slice slice{.sm = widths.front(), .quota = {room.quota, room.quota}};
  const Bytes stated = spec.memory_on(room.device.kind);
  if (room.device.kind == DeviceKind::kCuda)
    slice.memory = stated > 0 ? std::min(stated, room.memory) : room.memory;
  Described described(spec.inference().model);
  SLUICE_ASSIGN(model, started_model(spec, described));
  const ModelSpec& named = model.named;
  json order = {{"id", "profile-" + spec.name.name + "-" + std::to_string(getpid()) + "-" +
                           device_part(room.device.id)},
                {"function", to_string(name)},
                {"revision", 1},
                {"device", room.device.id},
                {"batch", most},
                {"owner", getpid()}};
  order.update(wire::to_json(kind_of(named).birth(model.started, {.max_size = most})));
  Subject subject(node, std::move(order), room.device, spec.model().program.start_timeout, stop);
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
  SLUICE_TRY(subject.take(slice));
  if (is_set(stop)) return profile;
  SLUICE_ASSIGN(requests, ProfileRequests::open(spec, sweep, name, subject.http()));
  Measuring measuring(subject, requests, sweep, progress, stop, kept, slice.memory);
  ProfilePlan plan{.points = points_in(room, sweep, widths), .per_point = sweep.per_point};
  SLUICE_ASSIGN(
      points, sweep.plan == nullptr
                  ? measuring.all_of(std::move(plan))
                  : measuring.searched({grid_in(room, sweep, widths), sweep.in_time}, room.quota));
  profile.points = std::move(points);
  kept.forget();
  (void)subject.use();  // after the last point
  profile.memory = subject.memory();
  return profile;
}

}  // namespace sluice::cli
