#include "sim/scenario_file.h"

#include <algorithm>
#include <filesystem>

#include "base/words.h"
#include "control/function_file.h"
#include "control/yaml_documents.h"
#include "control/yaml_fields.h"
#include "model/quantity.h"
#include "policy/bundle.h"
#include "sim/rate_file.h"
#include "sim/recorded_load.h"
#include "sim/recorded_platform.h"
#include "sim/recorded_profile.h"
#include "sim/scenario_fields.h"
#include "sim/scenario_jobs.h"
#include "trace/clusters.h"
#include "trace/text_file.h"

namespace sluice::sim {
namespace {

using control::Fields;
using control::Problems;
using control::Profile;
using control::Source;

constexpr Nanos kLongest = std::chrono::hours(24 * 30);
constexpr Nanos kShortest = Micros(1);  // a step of a load
constexpr double kFastest = 1e6;
constexpr size_t kMostStepsInAll = 10'000'000;     // of all loads
constexpr size_t kMostArrivalsInAll = 50'000'000;  // of all loads
constexpr int kMostDevices = 10'000;
constexpr int kMostFunctions = 10'000;
constexpr size_t kMostFaults = 1000;
// By FaultKind::Subject.
constexpr std::string_view kSubjects[] = {"a function below, or a job to kill",
                                          "a device's id, such as gpu-n0000/00",
                                          "a node, such as gpu-n0000",
                                          "a node, or gateway",
                                          "gateway",
                                          "forward and back"};

// Ids of one length are in the order of their numbers.
std::string four_digits(int n) {
  const std::string digits = std::to_string(n);
  return std::string(4 - std::min<size_t>(digits.size(), 4), '0') + digits;
}

// Reads one scenario's document. Its functions are known already.
class Reader {
 public:
  Reader(Scenario& out, Source& source, Problems& problems, std::filesystem::path folder)
      : out_(out), source_(source), problems_(problems), folder_(std::move(folder)) {}

  void document(const YAML::Node& node);

 private:
  void spec(Fields& f);
  void policies(Fields& f);
  void stepping(Fields& f);
  void multiples(Fields& f);
  void cold_starts(Fields& f);
  void device(Fields& f);
  void add_node(DevicePlan device, const std::string& name, int count);
  void recorded_nodes(Fields& f, const std::string& path, const DevicePlan& device);
  void load(Fields& f);
  void load_file(Fields& f, Load& load);
  void stages(Fields& f, Load& load);
  void gaps(Fields& f, Load& load);
  void keep(Fields& f, Load load);
  void profile(Fields& f);
  void point(Fields& f, Profile& p);
  void truth(Fields& f);
  void fault(Fields& f);
  std::vector<std::string> subjects_of(const FaultKind& kind) const;
  void copies(Fields& f);
  void copy(const FunctionName& name, int count);
  void function_name_of(Fields& f, FunctionName& out);
  void stored(Fields& f, RecordedPlatform& platform);
  void take_profiles(const RecordedPlatform& platform);
  void take_loads(Fields& f, RecordedPlatform& platform);

  template <class Read>
  void each(Fields& f, const std::string& key, size_t least, Read read) {
    read_each({f, source_, problems_}, key, least, read);
  }

  Scenario& out_;
  Source& source_;
  Problems& problems_;
  const std::filesystem::path folder_;
  size_t steps_ = 0, arrivals_ = 0;  // of the loads so far
};

void Reader::document(const YAML::Node& node) {
  Fields f(node, "", source_, problems_);
  std::string version, kind;
  f.need("apiVersion", "sluice.dev/v1alpha1");
  if (f.text("apiVersion", version) && version != "sluice.dev/v1alpha1")
    f.complain("apiVersion", "\"" + version + "\" is not known: sluice.dev/v1alpha1 is");
  f.need("kind", "Scenario, in the first document");
  if (f.text("kind", kind) && kind != "Scenario")
    f.complain("kind", "\"" + kind + "\" is not known: the first document is a Scenario");
  f.need("metadata", "metadata: {name: …}");
  f.need("spec", "the scenario");
  if (const YAML::Node metadata = f.take("metadata"); metadata.IsDefined()) {
    Fields m(metadata, "metadata", source_, problems_);
    m.need("name", "the scenario's name");
    m.text("name", out_.name);
  }
  if (const YAML::Node node_spec = f.take("spec"); node_spec.IsDefined()) {
    Fields s(node_spec, "spec", source_, problems_);
    spec(s);
  }
}

void Reader::spec(Fields& f) {
  f.need("duration", "a duration such as 120s");
  f.duration("duration", out_.duration, Seconds(1), kLongest);
  f.duration("settle", out_.settle, Nanos(0), kLongest);
  if (out_.settle >= out_.duration)
    f.complain("settle", "is not before the end, duration " +
                             std::to_string(out_.duration / Seconds(1)) + "s");
  int seed = 1;
  f.integer("seed", seed, 0, 1'000'000'000);
  out_.seed = static_cast<uint64_t>(seed);
  policies(f);
  stepping(f);
  multiples(f);
  cold_starts(f);
  f.duration("hop", out_.cluster.hop, Nanos(0), Seconds(1));
  f.need("devices", "a list of {type, count, memory}");
  each(f, "devices", 1, [this](Fields& d) { device(d); });
  const auto id = [](const DevicePlan& d) { return d.device.id; };
  std::ranges::sort(out_.cluster.devices, {}, id);
  const auto twice = std::ranges::adjacent_find(out_.cluster.devices, {}, id);
  if (twice != out_.cluster.devices.end())
    f.complain("devices", "device " + twice->device.id + " stands twice");
  RecordedPlatform platform;
  const bool from_store = f.has("store"), jobs_alone = out_.functions.empty() && has_jobs(f);
  f.duration("tick", out_.tick, Millis(50), Seconds(60));
  stored(f, platform);
  if (!from_store && !jobs_alone) f.need("profiles", "a list of {model, device, points}");
  each(f, "profiles", 1, [this](Fields& p) { profile(p); });
  take_profiles(platform);
  if (!from_store && !jobs_alone) f.need("loads", "a list of {function, rate}");
  each(f, "loads", 1, [this](Fields& l) { load(l); });
  take_loads(f, platform);
  if (from_store && !platform.functions.empty() && out_.loads.empty())
    f.complain("store", "has no whole minute of arrivals, and this file has no loads");
  each(f, "truths", 0, [this](Fields& t) { truth(t); });
  copies(f);
  read_jobs({f, source_, problems_}, folder_, out_);
  each(f, "faults", 0, [this](Fields& t) { fault(t); });
  if (out_.faults.size() > kMostFaults)
    f.complain("faults", "there are more than " + std::to_string(kMostFaults));
}

// The functions of a platform's store that the file does not have.
void Reader::stored(Fields& f, RecordedPlatform& platform) {
  const bool named = f.has("store");
  const std::string path = read_word(f, "store");
  if (named && path.empty()) f.complain("store", "must name a platform's control.db");
  if (path.empty()) return;
  auto read = read_platform(folder_ / path, out_.duration);
  if (!read.ok()) return f.complain("store", read.error().message);
  platform = std::move(*read);
  for (const FunctionSpec& spec : platform.functions) {
    if (std::ranges::find(out_.functions, spec.name, &FunctionSpec::name) != out_.functions.end())
      continue;
    out_.functions.push_back(spec);
    out_.functions.back().inference().model.content.clear();  // a path is enough of a name here
  }
  if (out_.functions.empty()) f.complain("store", "has no function, and this file has none");
  std::ranges::sort(out_.functions, {}, &FunctionSpec::name);
}

// Those of the store that the file does not have. A function of the file has the stored content if
// it keeps the model's path.
void Reader::take_profiles(const RecordedPlatform& platform) {
  std::vector<DeviceType> types;
  for (const DevicePlan& d : out_.cluster.devices)
    if (types.empty() || types.back() != type_of(d.device)) types.push_back(type_of(d.device));
  for (const FunctionSpec& spec : out_.functions) {
    const std::string& path = spec.inference().model.path;
    const auto was = std::ranges::find(platform.functions, spec.name, &FunctionSpec::name);
    ModelSpec model = spec.inference().model;
    if (was != platform.functions.end() && was->inference().model.path == path)
      model = was->inference().model;
    for (const DeviceType& type : types) {
      const auto same = [&](const Profile& o) { return o.model == path && o.device == type; };
      const Profile* known = platform.profiles.find(model, type);
      if (known == nullptr || std::ranges::any_of(out_.profiles, same)) continue;
      out_.profiles.push_back(
          {.model = path, .device = type, .memory = known->memory, .points = known->points});
    }
  }
}

// Those of functions to which the file gives none.
void Reader::take_loads(Fields& f, RecordedPlatform& platform) {
  if (platform.recorded > Nanos(0) && platform.recorded < out_.duration)
    f.complain("store", "has " + format_duration(platform.recorded) +
                            " of arrivals; duration may be that at most");
  for (auto& [name, plan] : platform.loads)
    if (std::ranges::find(out_.loads, name, &Load::function) == out_.loads.end())
      keep(f, {.function = name, .plan = std::move(plan)});
}

void Reader::policies(Fields& f) {
  const YAML::Node list = f.take("policies");
  if (!list.IsDefined()) return;
  if (!list.IsSequence()) return f.complain("policies", "must be a list of policies' names");
  std::vector<std::string> known;
  for (const policy::Bundle& b : policy::bundles()) known.emplace_back(b.name);
  for (const YAML::Node& item : list) {
    const std::string name = item.IsScalar() ? item.Scalar() : "";
    if (policy::find_bundle(name) == nullptr)
      f.complain("policies", "\"" + name + "\" is no policy" + control::did_you_mean(name, known) +
                                 " `sluice policies` lists them");
    out_.policies.push_back(name);
  }
}

void Reader::stepping(Fields& f) {
  std::string name;
  if (!f.text("stepping", name)) return;
  const auto found = find_stepping(name);
  if (!found) return f.complain("stepping", "\"" + name + "\" is neither exact nor fluid");
  out_.cluster.stepping = *found;
}

void Reader::multiples(Fields& f) {
  const YAML::Node list = f.take("sloMultiples");
  if (!list.IsDefined()) return;
  out_.slo_multiples.clear();
  if (list.IsSequence())
    for (const YAML::Node& item : list) {
      double value = 0;
      if (!item.IsScalar() || !YAML::convert<double>::decode(item, value) ||
          !(value > 0 && value <= 1000))
        return f.complain("sloMultiples", "each must be a number above 0, at most 1000");
      out_.slo_multiples.push_back(value);
    }
  if (out_.slo_multiples.empty() || out_.slo_multiples.size() > 16)
    f.complain("sloMultiples", "must be a list of 1 to 16 numbers, such as [1, 1.5, 2]");
}

void Reader::cold_starts(Fields& f) {
  const YAML::Node node = f.take("coldStart");
  if (!node.IsDefined()) {
    out_.cluster.cold_starts = {Seconds(2)};
    return;
  }
  const auto add = [&](const YAML::Node& item) {
    const auto d = sluice::parse_duration(item.IsScalar() ? item.Scalar() : "");
    if (!d.ok())
      f.complain("coldStart", d.error().message);
    else if (*d > std::chrono::hours(1))
      f.complain("coldStart", "is more than 1h");
    else
      out_.cluster.cold_starts.push_back(*d);
  };
  if (!node.IsSequence()) return add(node);
  for (const YAML::Node& item : node) add(item);
  if (node.size() == 0) f.complain("coldStart", "must be a duration, or a list of some");
}

void Reader::device(Fields& f) {
  DevicePlan plan;
  Device& d = plan.device;
  int count = 1, per_node = 8;
  if (f.has("nodes") && (f.has("count") || f.has("perNode")))
    f.complain("nodes", "stands in place of count and perNode");
  f.need("type", "the name of the devices' type");
  f.text("type", d.model);
  f.integer("count", count, 1, kMostDevices);
  f.integer("perNode", per_node, 1, 64);
  f.need("memory", "the memory of each, such as 40Gi");
  const bool has_memory = f.has("memory");
  f.bytes("memory", d.memory);
  if (has_memory && d.memory <= 0) f.complain("memory", "must be more than 0, such as 40Gi");
  d.sm_quantum = {10};
  f.share("smQuantum", d.sm_quantum);
  if (kWhole.permille % d.sm_quantum.permille != 0)
    f.complain("smQuantum", "does not divide a whole device");
  f.number("pricePerHour", d.price_per_hour, 0, 1e6);
  f.duration("grain", plan.physics.grain, Micros(1), Seconds(10));
  f.share("contention", plan.physics.contention);
  f.duration("meterLag", plan.physics.meter_lag, Micros(100), Seconds(1));
  for (const DevicePlan& other : out_.cluster.devices)
    if (other.device.model == d.model)
      return f.complain("type", "\"" + d.model + "\" stands twice");
  const std::string nodes = read_word(f, "nodes");
  if (nodes.empty()) {
    for (int node = 0; node * per_node < count; ++node)
      add_node(plan, d.model + "-n" + four_digits(node),
               std::min(per_node, count - node * per_node));
  } else {
    recorded_nodes(f, nodes, plan);
  }
  if (out_.cluster.devices.size() > kMostDevices)
    f.complain(nodes.empty() ? "count" : "nodes",
               "there are more than " + std::to_string(kMostDevices) + " devices");
}

void Reader::add_node(DevicePlan device, const std::string& name, int count) {
  for (int i = 0; i < count && out_.cluster.devices.size() <= kMostDevices; ++i) {
    device.device.node = name;
    device.device.id = name + "/" + four_digits(i).substr(2);
    out_.cluster.devices.push_back(device);
  }
}

// The nodes of Alibaba's list that have GPUs of the type.
void Reader::recorded_nodes(Fields& f, const std::string& path, const DevicePlan& device) {
  const auto nodes = trace::read_openb_nodes(folder_ / path);
  if (!nodes.ok()) return f.complain("nodes", nodes.error().message);
  std::vector<std::string> types;
  for (const trace::RecordedNode& node : *nodes) {
    if (std::ranges::count(types, node.gpu_model) == 0) types.push_back(node.gpu_model);
    if (node.gpu_model == device.device.model) add_node(device, node.name, std::min(node.gpus, 64));
  }
  if (std::ranges::count(types, device.device.model) == 0)
    f.complain("type", "\"" + device.device.model + "\" is no GPU model of " + path +
                           "; there are " + listed(types));
}

void Reader::function_name_of(Fields& f, FunctionName& out) {
  f.need("function", "the name of one of the functions below");
  std::string text;
  if (!f.text("function", text)) return;
  out = function_name(text);
  if (std::ranges::find(out_.functions, out, &FunctionSpec::name) != out_.functions.end()) return;
  std::vector<std::string> known;
  for (const FunctionSpec& spec : out_.functions) known.push_back(served_name(spec.name));
  f.complain("function",
             "\"" + text + "\" is no function of this file" + control::did_you_mean(text, known));
}

void Reader::load(Fields& f) {
  Load load;
  function_name_of(f, load.function);
  f.integer("inferences", load.inferences, 1, 1024);
  if (int seed = 0; f.has("seed")) {
    f.integer("seed", seed, 0, 1'000'000'000);
    load.seed = static_cast<uint64_t>(seed);
  }
  gaps(f, load);
  const int forms = f.has("rate") + f.has("stages") + f.has("file");
  if (forms != 1) f.complain("rate", "a load has one of rate, stages and file");
  double rate = 0;
  f.number("rate", rate, 0, kFastest);
  if (rate > 0) load.plan = {{out_.duration, rate}};
  stages(f, load);
  load_file(f, load);
  keep(f, std::move(load));
}

void Reader::keep(Fields& f, Load load) {
  steps_ += load.plan.size();
  arrivals_ += load.times.size();
  if (steps_ > kMostStepsInAll || arrivals_ > kMostArrivalsInAll) {
    f.complain("function", "the loads up to here have more than " +
                               std::to_string(kMostStepsInAll) + " steps or " +
                               std::to_string(kMostArrivalsInAll) + " arrivals");
    load.plan = {};
    load.times = {};
  }
  out_.loads.push_back(std::move(load));
}

void Reader::gaps(Fields& f, Load& load) {
  std::string kind = "poisson";
  f.text("gaps", kind);
  if (kind != "poisson" && kind != "constant" && kind != "gamma")
    f.complain("gaps", "\"" + kind + "\" is neither poisson, constant nor gamma");
  load.gaps.kind = kind == "constant" ? Gaps::Kind::kConstant
                   : kind == "gamma"  ? Gaps::Kind::kGamma
                                      : Gaps::Kind::kPoisson;
  f.number("cv", load.gaps.cv, 0.01, 20);
}

void Reader::stages(Fields& f, Load& load) {
  each(f, "stages", 1, [&](Fields& s) {
    RateStep step{.duration = Seconds(1)};
    s.need("duration", "a duration such as 10s");
    s.need("rate", "requests a second");
    s.duration("duration", step.duration, Millis(1), kLongest);
    s.number("rate", step.rate, 0, kFastest);
    load.plan.push_back(step);
  });
}

void Reader::load_file(Fields& f, Load& load) {
  const bool named = f.has("file"), kept = !f.has("scale") && !f.has("repeat") && !f.has("speed");
  for (const char* key : {"format", "row", "scale", "speed", "step", "repeat", "as"})
    if (!named && f.has(key)) f.complain(key, "goes with file");
  std::string path = read_word(f, "file"), format = "rates", row = read_word(f, "row"), name;
  f.text("format", format);
  double scale = 1, speed = 1;
  Nanos step = Seconds(1);
  bool repeat = true;
  f.number("speed", speed, 0.001, 100'000);
  f.number("scale", scale, 0, 1e6);
  f.duration("step", step, Millis(1), std::chrono::hours(24));
  if (const std::string text = read_word(f, "repeat"); !text.empty()) {
    repeat = text == "true";
    if (text != "true" && text != "false") f.complain("repeat", "must be true or false");
  }
  f.text("as", name);
  if (named && path.empty()) f.complain("file", "must name a file");
  if (path.empty()) return;
  const std::string at = folder_ / path;
  if (format == "arrivals") {
    if (!kept) f.complain("format", "arrivals are neither scaled nor repeated");
    auto times = read_arrivals(at, name.empty() ? load.function.name : name, out_.duration);
    if (!times.ok()) return f.complain("file", times.error().message);
    load.times = std::move(*times);
    return;
  }
  Result<RatePlan> plan = RatePlan{};
  if (format == "rates") {
    const auto text = trace::read_text(at);
    if (!text.ok()) return f.complain("file", text.error().message);
    plan = parse_rates(*text, {.step = step, .scale = scale});
    if (!plan.ok()) plan = within(at, plan.error());
  } else {
    std::vector<std::string> known{"rates", "arrivals"};
    for (const trace::RateFormat& r : trace::rate_formats()) known.emplace_back(r.name);
    if (std::ranges::count(known, format) == 0)
      return f.complain("format", not_found("format", format, known));
    const auto rates = trace::read_rates(format, at, {.scale = scale, .every = step, .row = row});
    plan = rates.ok() ? plan_of(*rates) : rates.error();
    if (rates.ok() && !plan.ok()) plan = within(at, plan.error());
  }
  if (!plan.ok()) return f.complain("file", plan.error().message);
  for (RateStep& s : *plan)
    s.duration = std::max(std::chrono::round<Nanos>(s.duration / speed), kShortest);
  const int64_t times = repeat ? out_.duration / total_duration(*plan) + 1 : 1;
  if (times > static_cast<int64_t>(kMostStepsInAll / plan->size()))
    return f.complain("file", path + ": repeated over the duration it has more than " +
                                  std::to_string(kMostStepsInAll) + " steps");
  load.plan = repeat ? fit_to(*plan, out_.duration) : std::move(*plan);
}

void Reader::profile(Fields& f) {
  Profile p;
  f.need("model", "the path of a function's model");
  f.need("device", "a type of the devices");
  f.text("model", p.model);
  f.text("device", p.device.name);
  f.bytes("memory", p.memory);
  const auto of_type = [&](const DevicePlan& d) { return d.device.model == p.device.name; };
  if (!p.device.name.empty() && std::ranges::none_of(out_.cluster.devices, of_type))
    f.complain("device", "\"" + p.device.name + "\" is no type of this cluster's devices");
  const bool tabled = f.has("table");
  if (f.has("points") == tabled) f.complain("points", "a profile has either points or table");
  each(f, "points", 1, [&](Fields& q) { point(q, p); });
  const std::string path = read_word(f, "table");
  if (tabled && path.empty()) f.complain("table", "must name a file");
  if (!path.empty()) {
    auto read = read_profile(folder_ / path);
    if (!read.ok()) return f.complain("table", read.error().message);
    p.points = std::move(read->points);
    if (p.memory == 0) p.memory = read->memory;
  }
  const auto same = [&](const Profile& o) { return o.model == p.model && o.device == p.device; };
  if (std::ranges::any_of(out_.profiles, same))
    f.complain("model", "there is a profile of \"" + p.model + "\" on this device already");
  out_.profiles.push_back(std::move(p));
}

void Reader::point(Fields& f, Profile& p) {
  MeasuredPoint point;
  f.need("latency", "the median of one batch, such as 12ms");
  f.integer("batch", point.at.batch, 1, 1024);
  f.share("sm", point.at.sm);
  f.share("quota", point.at.quota);
  f.duration("latency", point.median, Micros(1), std::chrono::hours(1));
  p.points.push_back(point);
}

void Reader::truth(Fields& f) {
  FunctionName name;
  Truth truth;
  function_name_of(f, name);
  f.number("slowness", truth.slowness, 0.01, 100);
  f.number("variation", truth.variation, 0, 0.99);
  if (!out_.cluster.truths.emplace(name, truth).second)
    f.complain("function", "its truth stands twice");
}

void Reader::copies(Fields& f) {
  if (!f.has("copies")) return;
  Fields counts(f.take("copies"), f.path_of("copies"), source_, problems_);
  const std::vector<FunctionSpec> functions = out_.functions;
  for (const FunctionSpec& spec : functions) {
    const std::string name = served_name(spec.name);
    int count = 0;
    counts.integer(name, count, 1, kMostFunctions);
    if (count > 0) copy(spec.name, count);
  }
  if (out_.functions.size() > kMostFunctions)
    f.complain("copies", "there are more than " + std::to_string(kMostFunctions) + " functions");
}

// Puts so many functions in the place of one: each with its loads, drawn anew, and its truth.
void Reader::copy(const FunctionName& name, int count) {
  const auto original = std::ranges::find(out_.functions, name, &FunctionSpec::name);
  const FunctionSpec spec = *original;
  out_.functions.erase(original);
  const auto own = std::stable_partition(out_.loads.begin(), out_.loads.end(),
                                         [&](const Load& load) { return load.function != name; });
  const std::vector<Load> loads(own, out_.loads.end());
  out_.loads.erase(own, out_.loads.end());
  const auto truth = out_.cluster.truths.extract(name);
  for (int i = 0; i < count; ++i) {
    FunctionSpec one = spec;
    one.name.name += "-" + four_digits(i);
    for (Load load : loads) {
      load.function = one.name;
      out_.loads.push_back(std::move(load));
    }
    if (truth) out_.cluster.truths.emplace(one.name, truth.mapped());
    out_.functions.push_back(std::move(one));
  }
}

void Reader::fault(Fields& f) {
  std::vector<std::string> keys;
  const FaultKind* kind = nullptr;
  int named = 0;
  for (const FaultKind& k : fault_kinds()) {
    keys.emplace_back(k.key);
    if (!f.has(k.key)) continue;
    kind = &k;
    ++named;
  }
  f.need("at", "when it happens, such as 40s");
  Fault t;
  f.duration("at", t.at, Nanos(0), kLongest);
  if (named != 1) {
    for (const std::string& key : keys) f.take(key);
    for (const char* key : {"lasts", "by", "times"}) f.take(key);
    return f.complain(
        "at", "a fault has one of " + listed(keys, 20) + "; this one has " + std::to_string(named));
  }
  if (out_.faults.size() > kMostFaults) return;
  const std::string key(kind->key);
  t.kind = kind->kind;
  t.subject = read_word(f, key);
  using Lasts = FaultKind::Lasts;
  const auto belongs = [&](const char* field, bool may, bool must, std::string_view what) {
    if (must) f.need(field, what);
    if (!may && f.has(field)) f.complain(field, "does not go with " + key);
  };
  belongs("lasts", kind->lasts != Lasts::kNo, kind->lasts == Lasts::kMust, "when it ends after at");
  belongs("by", kind->by, kind->by, "a duration such as 3s");
  belongs("times", kind->times, kind->times, "a factor such as 2");
  f.duration("lasts", t.lasts, Millis(1), kLongest);
  f.duration("by", t.by, Millis(1), kLongest);
  f.number("times", t.times, 0.01, 100);
  const std::vector<std::string> subjects = subjects_of(*kind);
  if (kind->subject == FaultKind::Subject::kFunction)
    t.subject = served_name(function_name(t.subject));
  if (std::ranges::count(subjects, t.subject) == 0)
    f.complain(key, "\"" + t.subject + "\" is not of this scenario" +
                        control::did_you_mean(t.subject, subjects) +
                        " Allowed: " + std::string(kSubjects[static_cast<size_t>(kind->subject)]));
  out_.faults.push_back(std::move(t));
}

// The names that a fault of the kind may have.
std::vector<std::string> Reader::subjects_of(const FaultKind& kind) const {
  using Subject = FaultKind::Subject;
  std::vector<std::string> names;
  if (kind.subject == Subject::kFunction)
    for (const FunctionSpec& spec : out_.functions) names.push_back(served_name(spec.name));
  if (kind.kind == Fault::Kind::kKill)
    for (const ScenarioJob& job : out_.jobs) names.push_back(served_name(job.spec.name));
  if (kind.subject == Subject::kDirection) names = {"forward", "back"};
  if (kind.subject == Subject::kGateway || kind.subject == Subject::kNodeOrGateway)
    names.emplace_back(kGateway);
  for (const DevicePlan& d : out_.cluster.devices)
    if (kind.subject == Subject::kDevice)
      names.push_back(d.device.id);
    else if (kind.subject == Subject::kNode || kind.subject == Subject::kNodeOrGateway)
      names.push_back(d.device.node);
  return names;
}

// Returns the text with the first document's lines empty, so that the others keep their lines.
std::string without_first(std::string_view text, int begins) {
  std::string out;
  bool first = true;
  int line = 1;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view row = text.substr(0, end);
    text = end == text.npos ? std::string_view() : text.substr(end + 1);
    const bool separates = first && line > begins && row.starts_with("---");
    if (!first) out += row;
    if (separates) first = false;
    out += '\n';
    ++line;
  }
  return out;
}

// Its functions may all come from a store, and jobs need none.
bool may_lack_functions(const YAML::Node& scenario) {
  const YAML::Node spec = scenario["spec"];
  if (!spec.IsDefined() || !spec.IsMap()) return false;
  return spec["store"].IsDefined() || spec["jobs"].IsDefined() || spec["jobLists"].IsDefined();
}

// A job's steps take what its model in spec.jobs says; a training function's file has no such model.
void refuse_training(std::vector<FunctionSpec>& functions, const std::string& file,
                     Problems& problems) {
  for (const FunctionSpec& f : functions)
    if (!f.is_inference())
      problems.push_back(file + ": " + f.name.name +
                         " is a TrainingFunction; a scenario's jobs stand in spec.jobs");
  const auto trains = [](const FunctionSpec& f) { return !f.is_inference(); };
  functions.erase(std::remove_if(functions.begin(), functions.end(), trains), functions.end());
}

// Every function needs a profile on every type, as the simulator would not know how fast it is; and
// memory for its least instances.
void check_functions(const Scenario& s, Source& source, Problems& problems) {
  for (const FunctionSpec& spec : s.functions) {
    const std::string& model = spec.inference().model.path;
    const int least = std::max(spec.inference().min_replicas, 1);
    int64_t fit = 0;
    for (const DevicePlan& d : s.cluster.devices) {
      const auto matches = [&](const Profile& p) {
        return p.model == model && p.device.name == d.device.model;
      };
      const auto p = std::ranges::find_if(s.profiles, matches);
      if (p == s.profiles.end()) {
        problems.push_back(source.at("spec.profiles") + ": none is of the model " + model + " of " +
                           spec.name.name + " on " + d.device.model);
        fit = least;
        break;
      }
      const Bytes memory = std::max(spec.memory > 0 ? spec.memory : p->memory, Bytes{1});
      fit += std::min<int64_t>(d.device.memory / memory, least);
    }
    if (fit < least)
      problems.push_back(source.at("spec.devices") + ": they have memory for " +
                         std::to_string(fit) + " instances of " + spec.name.name + ", which has " +
                         std::to_string(least) + " at least (minReplicas)");
  }
}

}  // namespace

Result<Scenario> parse_scenario(std::string_view text, const std::string& file,
                                const std::string& folder) {
  SLUICE_ASSIGN(documents, control::yaml_documents(text, file));
  Problems problems;
  Scenario out;
  if (documents.empty() || !documents.front().IsMap())
    return Error{ErrorKind::kInvalid, file + ":1 wants a Scenario in its first document"};
  Source source{.file = file, .line = documents.front().Mark().line + 1};
  if (documents.size() > 1 || !may_lack_functions(documents.front())) {
    auto functions = control::parse_functions(without_first(text, source.line),
                                              {.file = file, .folder = "", .home = ""});
    if (functions.ok())
      out.functions = std::move(*functions);
    else
      problems.push_back(functions.error().message);
  }
  refuse_training(out.functions, file, problems);
  Reader(out, source, problems, folder).document(documents.front());
  for (FunctionSpec& f : out.functions) f.inference().token.clear();  // its load may call it
  if (problems.empty()) check_functions(out, source, problems);
  if (problems.empty()) return out;
  std::string all;
  for (const std::string& p : problems) all += (all.empty() ? "" : "\n") + p;
  return Error{ErrorKind::kInvalid, all};
}

}  // namespace sluice::sim
