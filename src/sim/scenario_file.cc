#include "sim/scenario_file.h"

#include <algorithm>
#include <filesystem>

#include "control/spec/function_file.h"
#include "control/spec/yaml_documents.h"
#include "control/spec/yaml_fields.h"
#include "model/quantity.h"
#include "policy/bundle.h"
#include "sim/recorded_platform.h"
#include "sim/recorded_profile.h"
#include "sim/scenario_cluster.h"
#include "sim/scenario_faults.h"
#include "sim/scenario_fields.h"
#include "sim/scenario_jobs.h"
#include "sim/scenario_loads.h"

namespace sluice::sim {
namespace {

using control::Fields;
using control::Problems;
using control::Profile;
using control::Source;

constexpr int kMostFunctions = 10'000;

// Reads one scenario's document. Its functions are known already.
class Reader {
 public:
  Reader(Scenario& out, Source& source, Problems& problems, std::filesystem::path folder,
         std::string store)
      : out_(out),
        source_(source),
        problems_(problems),
        folder_(std::move(folder)),
        store_(std::move(store)) {}

  void document(const YAML::Node& node);

 private:
  void spec(Fields& f);
  void names(Fields& f, const std::string& key, const std::string& noun,
             const std::vector<std::string>& known, std::vector<std::string>& out);
  void multiples(Fields& f);
  void loans(Fields& all);
  void profile(Fields& f);
  void point(Fields& f, Profile& p);
  void truth(Fields& f);
  void copies(Fields& f);
  void copy(const FunctionName& name, int count);
  void stored(Fields& f, RecordedPlatform& platform);
  void take_profiles(const RecordedPlatform& platform);
  void take_loads(Fields& f, RecordedPlatform& platform, LoadReader& loads);

  template <class Read>
  void each(Fields& f, const std::string& key, size_t least, Read read) {
    read_each({f, source_, problems_}, key, least, read);
  }

  Scenario& out_;
  Source& source_;
  Problems& problems_;
  const std::filesystem::path folder_;
  const std::string store_;  // in place of the file's; empty: not given
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
  std::vector<std::string> bundles;
  for (const policy::Bundle& b : policy::bundles()) bundles.emplace_back(b.name);
  names(f, "policies", "policy", bundles, out_.policies);
  names(f, "plans", "plan", policy::plan_names(), out_.plans);
  multiples(f);
  read_cluster({f, source_, problems_}, folder_, out_.cluster);
  RecordedPlatform platform;
  const bool from_store = f.has("store") || !store_.empty(),
             jobs_alone = out_.functions.empty() && has_jobs(f);
  loans(f);
  f.duration("tick", out_.tick, Millis(50), kMostTick);
  stored(f, platform);
  if (!from_store && !jobs_alone) f.need("profiles", "a list of {model, device, points}");
  each(f, "profiles", 1, [this](Fields& p) { profile(p); });
  take_profiles(platform);
  if (!from_store && !jobs_alone) f.need("loads", "a list of {function, rate}");
  LoadReader loads({f, source_, problems_}, folder_, out_);
  each(f, "loads", 1, [&](Fields& l) { loads.read(l); });
  take_loads(f, platform, loads);
  if (from_store && !platform.functions.empty() && out_.loads.empty())
    f.complain("store", "has no whole minute of arrivals, and this file has no loads");
  each(f, "truths", 0, [this](Fields& t) { truth(t); });
  copies(f);
  read_jobs({f, source_, problems_}, folder_, out_);
  read_faults({f, source_, problems_}, out_);
}

void Reader::loans(Fields& all) {
  read_section({all, source_, problems_}, "loans", [this](Fields& f) {
    const auto names = policy::reclaim_rules();
    if (std::string rule; f.text("reclaim", rule)) {
      const auto at = std::ranges::find(names, rule);
      if (at == names.end())
        f.complain("reclaim", not_found("rule", rule, {names.begin(), names.end()}));
      else
        out_.loans.reclaim = static_cast<policy::ReclaimRule>(at - names.begin());
    }
    f.duration("idle", out_.loans.idle, Nanos(0), std::chrono::hours(24));
    f.integer("spare", out_.loans.spare, 0, 10'000);
  });
}

// The functions of a platform's store that the file does not have.
void Reader::stored(Fields& f, RecordedPlatform& platform) {
  const bool named = f.has("store");
  const std::string stated = read_word(f, "store"), path = store_.empty() ? stated : store_;
  if (named && path.empty()) f.complain("store", "must name a platform's control.db");
  if (path.empty()) return;
  auto read = read_platform(folder_ / path, out_.duration);
  if (!read.ok()) return f.complain("store", read.error().message);
  platform = std::move(*read);
  for (const FunctionSpec& spec : platform.functions) {
    if (std::ranges::find(out_.functions, spec.name, &FunctionSpec::name) != out_.functions.end())
      continue;
    out_.functions.push_back(spec);
    InferenceSpec& s = out_.functions.back().inference();  // where a path is enough of a name
    s.model.content.clear();
    for (ModelVariant& v : s.variants) v.model.content.clear();
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
    const auto was = std::ranges::find(platform.functions, spec.name, &FunctionSpec::name);
    for (const DeviceType& type : types) {
      ModelSpec model = spec.model_on(type);
      const std::string path = model.path;
      if (was != platform.functions.end() && was->model_on(type).path == path)
        model = was->model_on(type);
      const auto same = [&](const Profile& o) { return o.model == path && o.device == type; };
      const Profile* known = platform.profiles.find(model, type);
      if (known == nullptr || std::ranges::any_of(out_.profiles, same)) continue;
      out_.profiles.push_back(
          {.model = path, .device = type, .memory = known->memory, .points = known->points});
    }
  }
}

// Those of functions to which the file gives none.
void Reader::take_loads(Fields& f, RecordedPlatform& platform, LoadReader& loads) {
  if (platform.recorded > Nanos(0) && platform.recorded < out_.duration)
    f.complain("store", "has " + format_duration(platform.recorded) +
                            " of arrivals; duration may be that at most");
  for (auto& [name, plan] : platform.loads)
    if (std::ranges::find(out_.loads, name, &Load::function) == out_.loads.end())
      loads.keep(f, {.function = name, .plan = std::move(plan)});
}

// Reads the names of policies or plans.
void Reader::names(Fields& f, const std::string& key, const std::string& noun,
                   const std::vector<std::string>& known, std::vector<std::string>& out) {
  const YAML::Node list = f.take(key);
  if (!list.IsDefined()) return;
  if (!list.IsSequence()) return f.complain(key, "must be a list of " + key + "' names");
  for (const YAML::Node& item : list) {
    const std::string name = item.IsScalar() ? item.Scalar() : "";
    if (std::ranges::find(known, name) == known.end())
      f.complain(key, "\"" + name + "\" is no " + noun + control::did_you_mean(name, known) +
                          " `sluice policies" + (noun == "plan" ? " --plans" : "") +
                          "` lists them");
    out.push_back(name);
  }
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
  read_function(f, out_.functions, name);
  f.number("slowness", truth.slowness, 0.01, 100);
  f.number("variation", truth.variation, 0, 0.99);
  f.share("host", truth.host);
  if (const std::string text = read_word(f, "profiled"); !text.empty()) {
    truth.profiled = text == "true";
    if (text != "true" && text != "false") f.complain("profiled", "must be true or false");
  }
  const auto is_gpu = [](const DevicePlan& d) { return d.physics.gpu.has_value(); };
  if (truth.host == kWhole)
    f.complain("host", "is the whole of a batch; at most 99.9%, as the device does the rest");
  else if (truth.host > kNone && std::ranges::none_of(out_.cluster.devices, is_gpu))
    f.complain("host", "goes with devices of kind: gpu, and there are none");
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

// A job's steps take what its model in spec.jobs says; a training function's file has no such
// model.
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
    const int least = std::max(spec.inference().min_replicas, 1);
    int64_t fit = 0;
    for (const DevicePlan& d : s.cluster.devices) {
      if (!spec.may_use(d.device)) continue;
      const std::string& model = spec.model_on(type_of(d.device)).path;
      const auto matches = [&](const Profile& p) {
        return p.model == model && p.device.name == d.device.model;
      };
      const auto p = std::ranges::find_if(s.profiles, matches);
      if (p == s.profiles.end()) {
        problems.push_back(source.at("spec.profiles") + ": none is of the model " + model + " of " +
                           spec.name.name + " on " + d.device.model + ": `sluice profile " +
                           spec.name.name + "` measures it");
        fit = least;
        break;
      }
      const Bytes stated = spec.memory_on(d.device.kind);
      const Bytes memory = std::max(stated > 0 ? stated : p->memory, Bytes{1});
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
                                const std::string& folder, const std::string& store) {
  SLUICE_ASSIGN(documents, control::yaml_documents(text, file));
  Problems problems;
  Scenario out;
  if (documents.empty() || !documents.front().IsMap())
    return Error{ErrorKind::kInvalid, file + ":1 wants a Scenario in its first document"};
  Source source{.file = file, .line = documents.front().Mark().line + 1};
  if (documents.size() > 1 || (store.empty() && !may_lack_functions(documents.front()))) {
    auto functions = control::parse_functions(without_first(text, source.line),
                                              {.file = file, .folder = "", .home = ""});
    if (functions.ok())
      out.functions = std::move(*functions);
    else
      problems.push_back(functions.error().message);
  }
  refuse_training(out.functions, file, problems);
  Reader(out, source, problems, folder, store).document(documents.front());
  for (FunctionSpec& f : out.functions) {
    f.inference().token.clear();  // its load may call it
    f.device = "any";             // the times of its truth and profile say what it is like on each
  }
  if (problems.empty()) check_functions(out, source, problems);
  if (problems.empty()) return out;
  std::string all;
  for (const std::string& p : problems) all += (all.empty() ? "" : "\n") + p;
  return Error{ErrorKind::kInvalid, all};
}

}  // namespace sluice::sim
