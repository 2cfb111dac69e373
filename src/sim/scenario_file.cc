#include "sim/scenario_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "base/words.h"
#include "control/function_file.h"
#include "control/yaml_documents.h"
#include "control/yaml_fields.h"
#include "model/quantity.h"
#include "policy/bundle.h"
#include "sim/rate_file.h"
#include "sim/recorded_load.h"
#include "trace/clusters.h"
#include "trace/text_file.h"
#include "wire/json.h"

namespace sluice::sim {
namespace {

using control::Fields;
using control::Problems;
using control::Profile;
using control::Source;

constexpr Nanos kLongest = std::chrono::hours(24 * 30);
constexpr double kFastest = 1e6;
constexpr int64_t kMostSteps = 10'000'000;  // of a load
constexpr int kMostDevices = 10'000;
constexpr int kMostFunctions = 10'000;

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
  void profile(Fields& f);
  void table(Fields& f, const std::string& path, Profile& p);
  void point(Fields& f, Profile& p);
  void truth(Fields& f);
  void fault(Fields& f);
  void copies(Fields& f);
  void copy(const FunctionName& name, int count);
  void function_name_of(Fields& f, FunctionName& out);

  // Reads each mapping of the list `key` by `read`; `least` of them must be there.
  template <class Read>
  void each(Fields& f, const std::string& key, size_t least, Read read) {
    const YAML::Node list = f.take(key);
    if (!list.IsDefined()) return;
    if (!list.IsSequence() || list.size() < least)
      return f.complain(key, "must be a list of mappings, of one at least");
    for (size_t i = 0; i < list.size(); ++i) {
      Fields item(list[i], f.path_of(key) + "[" + std::to_string(i) + "]", source_, problems_);
      if (list[i].IsMap()) read(item);
    }
  }
  // Reads a scalar's text, whatever it looks like; empty if absent.
  std::string word(Fields& f, const std::string& key) {
    const YAML::Node node = f.take(key);
    if (!node.IsDefined()) return {};
    if (!node.IsScalar()) f.complain(key, "must be one value");
    return node.IsScalar() ? node.Scalar() : std::string();
  }

  Scenario& out_;
  Source& source_;
  Problems& problems_;
  const std::filesystem::path folder_;
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
  f.need("profiles", "a list of {model, device, points}");
  each(f, "profiles", 1, [this](Fields& p) { profile(p); });
  f.need("loads", "a list of {function, rate}");
  each(f, "loads", 1, [this](Fields& l) { load(l); });
  each(f, "truths", 0, [this](Fields& t) { truth(t); });
  copies(f);
  each(f, "faults", 0, [this](Fields& t) { fault(t); });
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
  f.bytes("memory", d.memory);
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
  const std::string nodes = word(f, "nodes");
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
  std::vector<std::string> known;
  for (const FunctionSpec& spec : out_.functions) known.push_back(served_name(spec.name));
  if (std::ranges::find(out_.functions, out, &FunctionSpec::name) == out_.functions.end())
    f.complain("function",
               "\"" + text + "\" is no function of this file" + control::did_you_mean(text, known));
}

void Reader::load(Fields& f) {
  Load load;
  function_name_of(f, load.function);
  f.integer("inferences", load.inferences, 1, 1024);
  gaps(f, load);
  const int forms = f.has("rate") + f.has("stages") + f.has("file");
  if (forms != 1) f.complain("rate", "a load has one of rate, stages and file");
  double rate = 0;
  f.number("rate", rate, 0, kFastest);
  if (rate > 0) load.plan = {{out_.duration, rate}};
  stages(f, load);
  load_file(f, load);
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
  const bool named = f.has("file"), kept = !f.has("scale") && !f.has("repeat");
  for (const char* key : {"format", "row", "scale", "step", "repeat", "as"})
    if (!named && f.has(key)) f.complain(key, "goes with file");
  std::string path = word(f, "file"), format = "rates", row = word(f, "row"), name;
  f.text("format", format);
  double scale = 1;
  Nanos step = Seconds(1);
  bool repeat = true;
  f.number("scale", scale, 0, 1e6);
  f.duration("step", step, Millis(1), std::chrono::hours(24));
  if (const std::string text = word(f, "repeat"); !text.empty()) {
    repeat = text == "true";
    if (text != "true" && text != "false") f.complain("repeat", "must be true or false");
  }
  f.text("as", name);
  if (named && path.empty()) f.complain("file", "must name a file");
  if (path.empty()) return;
  const std::string at = folder_ / path;
  if (format == "arrivals") {
    if (!kept) f.complain("format", "arrivals are neither scaled nor repeated");
    auto times = read_arrivals(at, name.empty() ? load.function.name : name);
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
  const int64_t times = repeat ? out_.duration / total_duration(*plan) + 1 : 1;
  if (times > kMostSteps / static_cast<int64_t>(plan->size()))
    return f.complain("file", path + ": repeated over the duration it has more than " +
                                  std::to_string(kMostSteps) + " steps");
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
  if (const std::string path = word(f, "table"); !path.empty())
    table(f, path, p);
  else if (tabled)
    f.complain("table", "must name a file");
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

// A table of lines "batch,SM per cent,seconds per batch[,…]", or a profile as `sluice profile`
// stores it (JSON).
void Reader::table(Fields& f, const std::string& path, Profile& p) {
  const auto text = trace::read_text(folder_ / path);
  if (!text.ok()) return f.complain("table", text.error().message);
  if (path.ends_with(".json")) {
    const auto parsed = wire::parse_json(*text);
    const auto read =
        parsed.ok() ? control::profile_from(*parsed) : Result<Profile>(parsed.error());
    if (!read.ok()) return f.complain("table", path + ": " + read.error().message);
    p.points = read->points;
    if (p.memory == 0) p.memory = read->memory;
    return;
  }
  std::string_view rest = *text;
  for (int line = 1; !rest.empty(); ++line) {
    const size_t end = rest.find('\n');
    const std::string_view row = rest.substr(0, end);
    rest = end == rest.npos ? std::string_view() : rest.substr(end + 1);
    if (row.empty()) continue;
    double cells[3] = {0, 0, 0};
    const char* at = row.data();
    const char* const stop = at + row.size();
    bool good = true;
    for (double& cell : cells) {
      const auto [next, error] = std::from_chars(at, stop, cell);
      good = good && error == std::errc();
      at = next == stop ? next : next + 1;
    }
    const auto within_bounds = [](double value, double least, double most) {
      return value >= least && value <= most;
    };
    if (!good || !within_bounds(cells[0], 1, 1024) || !within_bounds(cells[1], 0.1, 100) ||
        !within_bounds(cells[2], 1e-6, 3600))
      return f.complain(
          "table",
          path + ": line " + std::to_string(line) + ": '" + std::string(row.substr(0, 40)) +
              "' is not batch (1 to 1024), SM (0.1 to 100 per cent), seconds (1e-6 to 3600)");
    p.points.push_back(
        {{static_cast<int>(cells[0]), {static_cast<int>(std::lround(cells[1] * 10))}, kWhole},
         Micros(std::llround(cells[2] * 1e6))});
  }
  if (p.points.empty()) f.complain("table", path + ": there is no line in it");
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
  const auto others = std::ranges::stable_partition(
      out_.loads, [&](const Load& load) { return load.function != name; });
  const std::vector<Load> loads(others.begin(), others.end());
  out_.loads.erase(others.begin(), others.end());
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
  Fault t;
  f.need("at", "when it happens, such as 40s");
  f.duration("at", t.at, Nanos(0), kLongest);
  f.duration("lasts", t.lasts, Millis(1), kLongest);
  const bool kills = f.text("kill", t.subject);
  const bool fails = f.text("fail", t.subject);
  const bool silences = f.text("silence", t.subject);
  if (kills + fails + silences != 1)
    return f.complain("kill",
                      "a fault has one of kill (a function), fail (a device) and silence "
                      "(a node, with lasts)");
  t.kind = kills ? Fault::Kind::kKill : fails ? Fault::Kind::kFail : Fault::Kind::kSilence;
  if (silences && t.lasts == Nanos(0)) f.complain("lasts", "is missing; a silence has an end");
  const auto named = [&](const DevicePlan& d) {
    return fails ? d.device.id == t.subject : d.device.node == t.subject;
  };
  const bool known = kills ? std::ranges::find(out_.functions, function_name(t.subject),
                                               &FunctionSpec::name) != out_.functions.end()
                           : std::ranges::any_of(out_.cluster.devices, named);
  if (!known)
    f.complain(kills   ? "kill"
               : fails ? "fail"
                       : "silence",
               "\"" + t.subject + "\" is not of this scenario");
  out_.faults.push_back(std::move(t));
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

// Every function needs a profile on every type: the simulator would not know how fast it is.
void check_profiles(const Scenario& s, Source& source, Problems& problems) {
  for (const FunctionSpec& spec : s.functions)
    for (const DevicePlan& d : s.cluster.devices) {
      const auto matches = [&](const Profile& p) {
        return p.model == spec.inference().model.path && p.device.name == d.device.model;
      };
      if (std::ranges::any_of(s.profiles, matches)) continue;
      problems.push_back(source.at("spec.profiles") + ": none is of the model " +
                         spec.inference().model.path + " of " + spec.name.name + " on " +
                         d.device.model);
      break;
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
  const auto functions = control::parse_functions(without_first(text, source.line),
                                                  {.file = file, .folder = "", .home = ""});
  if (functions.ok())
    out.functions = *functions;
  else
    problems.push_back(functions.error().message);
  for (FunctionSpec& f : out.functions) f.inference().token.clear();  // its load may call it
  Reader(out, source, problems, folder).document(documents.front());
  if (problems.empty()) check_profiles(out, source, problems);
  if (problems.empty()) return out;
  std::string all;
  for (const std::string& p : problems) all += (all.empty() ? "" : "\n") + p;
  return Error{ErrorKind::kInvalid, all};
}

}  // namespace sluice::sim
