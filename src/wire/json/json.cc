#include "wire/json/json.h"

#include <algorithm>
#include <array>
#include <limits>

#include "model/server_kind.h"

namespace sluice::wire {

using nlohmann::json;

namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr Micros kLeastSlo{100};
// The range that `introspective` can distinguish.
constexpr int kLeastTolerance = 1200, kMostTolerance = 4000;
constexpr int64_t kInt = std::numeric_limits<int>::max();
constexpr std::array<std::string_view, 4> kStates{"starting", "ready", "draining", "gone"};
// As in `nvidia-smi topo`, plus one nearer step: two GPUs of one board.
constexpr std::array<std::string_view, 6> kPaths{"BOARD", "PIX", "PXB", "PHB", "NODE", "SYS"};
constexpr std::array<std::string_view, 3> kMigModes{"none", "off", "on"};  // by MigMode

template <class T>
json list_of(const std::vector<T>& values) {
  json out = json::array();
  for (const T& v : values) out.push_back(to_json(v));
  return out;
}

Share share(Fields& f, std::string_view key, int otherwise) {
  return {static_cast<int>(f.integer(key, otherwise, 0, 1000))};
}

PciePath path_from(Fields& f) {
  const std::string path = f.text("path", "SYS");
  const auto known = std::ranges::find(kPaths, path);
  if (known != kPaths.end()) return static_cast<PciePath>(known - kPaths.begin());
  f.fail("path", "'" + path + "' is none of BOARD, PIX, PXB, PHB, NODE, SYS");
  return PciePath::kSystem;
}

MigMode mig_mode_from(Fields& f) {
  const std::string mode = f.text("mig", "none");
  const auto known = std::ranges::find(kMigModes, mode);
  if (known != kMigModes.end()) return static_cast<MigMode>(known - kMigModes.begin());
  f.fail("mig", "'" + mode + "' is none of none, off, on");
  return MigMode::kNone;
}

}  // namespace

// ---- writing ---------------------------------------------------------------------------------

json to_json(const Slice& s) {
  return {{"sm", s.sm.permille},
          {"request", s.quota.request.permille},
          {"limit", s.quota.limit.permille},
          {"memory", s.memory},
          {"slo_us", s.slo / Micros(1)},
          {"tolerance", s.tolerance}};
}

json to_json(const Position& p) {
  return {{"sm_begin", p.sm_begin.permille}, {"time_begin", p.time_begin.permille}};
}

json to_json(const DeviceLink& l) {
  return {{"to", l.to}, {"nvlinks", l.nvlinks}, {"path", kPaths[static_cast<size_t>(l.path)]}};
}

json to_json(const NicLink& l) {
  return {{"nic", l.nic}, {"path", kPaths[static_cast<size_t>(l.path)]}};
}

json to_json(const Device& d) {
  return {{"id", d.id},
          {"kind", d.kind == DeviceKind::kCpu ? "cpu" : "cuda"},
          {"node", d.node},
          {"model", d.model},
          {"type", type_of(d).name},
          {"uuid", d.uuid},
          {"bus", d.bus},
          {"compute_capability", d.compute_capability},
          {"sms", d.sms},
          {"mps", d.mps},
          {"mps_status", d.mps_status},
          {"mig", kMigModes[static_cast<size_t>(d.mig)]},
          {"links", list_of(d.links)},
          {"nics", list_of(d.nics)},
          {"millicores", d.millicores},
          {"type_name", d.type_name},
          {"memory", d.memory},
          {"sm_quantum", d.sm_quantum.permille},
          {"can_resize_sm", d.can_resize_sm},
          {"drained", d.drained},
          {"fault", d.fault},
          {"set_apart", d.set_apart},
          {"price_per_hour", d.price_per_hour},
          {"window_us", d.window.count() / 1000},
          {"arbiter", d.arbiter}};
}

json to_json(const TensorSpec& t) {
  json out = {{"name", t.name}, {"datatype", t.datatype}, {"shape", t.shape}};
  if (!t.sizes.empty()) out["sizes"] = t.sizes;
  if (!t.sample.empty()) out["sample"] = t.sample;
  return out;
}

json to_json(const ModelSpec& m) {
  json out = {{"path", m.path},
              {"format", m.format},
              {"content", m.content},
              {"inputs", list_of(m.inputs)},
              {"outputs", list_of(m.outputs)}};
  if (m.max_batch > 0) out["max_batch"] = m.max_batch;
  if (!m.sha256.empty()) out["sha256"] = m.sha256;
  return out;
}

json to_json(const Batching& b) {
  return {{"max_size", b.max_size}, {"max_delay_us", b.max_delay.count() / 1000}};
}

json to_json(const Part& p) {
  return {{"device", p.device}, {"slice", to_json(p.slice)}, {"position", to_json(p.position)}};
}

json to_json(const Instance& i) {
  json out = {{"id", i.id},
              {"function", to_string(i.function)},
              {"revision", i.revision},
              {"state", to_string(i.state)},
              {"parts", list_of(i.parts)},
              {"batch", i.batch},
              {"arbiter", i.arbiter}};
  // As before parts existed, for readers that know no others.
  if (i.parts.size() == 1) out.update(to_json(i.first()));
  return out;
}

json to_json(const Reason& r) {
  json numbers = json::array();  // pairs, so that their order survives
  for (const auto& [name, value] : r.numbers) numbers.push_back({name, value});
  return {{"rule", r.rule}, {"text", r.text}, {"numbers", numbers}};
}

json to_json(const Action& a) {
  json out = {{"function", to_string(a.function)},
              {"action", name_of(a.what)},
              {"reason", to_json(a.reason)}};
  if (const auto* start = std::get_if<StartInstance>(&a.what)) {
    out.update({{"revision", start->revision},
                {"device", start->first().device},
                {"slice", to_json(start->first().slice)},
                {"position", to_json(start->first().position)},
                {"batch", start->batch},
                {"arbiter", start->arbiter}});
  } else if (const auto* stop = std::get_if<StopInstance>(&a.what)) {
    out.update({{"instance", stop->instance}});
  } else if (const auto* resize = std::get_if<ResizeInstance>(&a.what)) {
    out.update({{"instance", resize->instance},
                {"slice", to_json(resize->first().slice)},
                {"position", to_json(resize->first().position)}});
  } else if (const auto* unmet = std::get_if<Unmet>(&a.what)) {
    out.update({{"gap", unmet->gap}});
  } else if (const auto* loan = std::get_if<Loan>(&a.what)) {
    out.update({{"node", loan->node}, {"from", loan->from}, {"to", loan->to}});
  }
  return out;
}

std::string_view to_string(InstanceState s) {
  return kStates[static_cast<size_t>(s)];
}

Result<json> parse_json(std::string_view text) {
  constexpr int kDeepest = 64;
  bool too_deep = false;
  const auto bound = [&](int depth, json::parse_event_t, json&) {
    if (depth > kDeepest) too_deep = true;
    return !too_deep;
  };
  try {
    json parsed = json::parse(text, bound);
    if (too_deep) return Error{ErrorKind::kInvalid, "JSON: nested deeper than 64 levels"};
    return parsed;
  } catch (const json::exception& e) {
    return Error{ErrorKind::kInvalid, std::string("JSON: ") + e.what()};
  }
}

// ---- reading ---------------------------------------------------------------------------------

Result<InstanceState> instance_state_from(std::string_view text) {
  for (size_t i = 0; i < kStates.size(); ++i)
    if (kStates[i] == text) return static_cast<InstanceState>(i);
  return Error{ErrorKind::kInvalid,
               "state: '" + std::string(text) + "' is none of starting, ready, draining, gone"};
}

Result<Slice> slice_from(const json& j) {
  Fields f(j, "slice");
  Slice s;
  s.sm = share(f, "sm", 1000);
  s.quota.request = share(f, "request", 1000);
  s.quota.limit = share(f, "limit", s.quota.request.permille);
  s.memory = f.integer("memory", 0, 0, Bytes{1} << 60);  // sums do not overflow
  s.slo = Micros(f.integer("slo_us", 0, 0, Micros(std::chrono::hours(1)).count()));
  s.tolerance = static_cast<int>(f.integer("tolerance", 0, 0, kMostTolerance));
  if (s.slo > Nanos(0) && s.slo < kLeastSlo)
    f.fail("slo_us", std::to_string(s.slo / Micros(1)) + " is below " +
                         std::to_string(kLeastSlo / Micros(1)) + "; 0: it has none");
  if (s.tolerance != 0 && s.tolerance < kLeastTolerance)
    f.fail("tolerance", std::to_string(s.tolerance) + " is not between " +
                            std::to_string(kLeastTolerance) + " and " +
                            std::to_string(kMostTolerance) + "; 0: as the arbiter has it");
  if (s.tolerance != 0 && s.slo == Nanos(0))
    f.fail("tolerance", std::to_string(s.tolerance) + " means nothing without slo_us");
  if (s.quota.limit < s.quota.request)
    f.fail("limit", std::to_string(s.quota.limit.permille) + " is below the request of " +
                        std::to_string(s.quota.request.permille));
  return f.finish(s);
}

Result<Position> position_from(const json& j) {
  Fields f(j, "position");
  return f.finish(Position{share(f, "sm_begin", 0), share(f, "time_begin", 0)});
}

Result<DeviceLink> device_link_from(const json& j) {
  Fields f(j, "link");
  DeviceLink l{.to = f.text("to")};
  l.nvlinks = static_cast<int>(f.integer("nvlinks", 0, 0, kInt));
  l.path = path_from(f);
  return f.finish(l);
}

Result<NicLink> nic_link_from(const json& j) {
  Fields f(j, "nic");
  NicLink l{.nic = f.text("nic")};
  l.path = path_from(f);
  return f.finish(l);
}

Result<Device> device_from(const json& j) {
  Fields f(j, "device");
  Device d;
  d.id = f.text("id");
  d.kind = f.text("kind", "cpu") == "cuda" ? DeviceKind::kCuda : DeviceKind::kCpu;
  d.node = f.text("node");
  d.model = f.text("model");
  d.uuid = f.text("uuid");
  d.bus = f.text("bus");
  d.compute_capability = static_cast<int>(f.integer("compute_capability", 0, 0, kInt));
  d.sms = static_cast<int>(f.integer("sms", 0, 0, kInt));
  d.mps = f.boolean("mps", false);
  d.mps_status = f.text("mps_status");
  d.mig = mig_mode_from(f);
  d.links = f.parts("links", device_link_from);
  d.nics = f.parts("nics", nic_link_from);
  d.millicores = static_cast<int>(f.integer("millicores", 0, 0, kInt));
  d.type_name = f.text("type_name");
  d.memory = f.integer("memory", 0, 0, kMost);
  d.sm_quantum = {static_cast<int>(f.integer("sm_quantum", 1000, 1, 1000))};
  d.can_resize_sm = f.boolean("can_resize_sm", false);
  d.drained = f.boolean("drained", false);
  d.fault = f.text("fault");
  d.set_apart = f.text("set_apart");
  d.price_per_hour = f.number("price_per_hour", 0, 0, 1e9);
  // A node from before this field existed has 20 ms.
  d.window = Micros(f.integer("window_us", 20'000, 1, 1'000'000'000));
  d.arbiter = f.text("arbiter");
  if (d.id.empty()) f.fail("id", "must not be empty");
  return f.finish(d);
}

Result<TensorSpec> tensor_spec_from(const json& j) {
  Fields f(j, "tensor");
  TensorSpec t{.name = f.text("name"), .datatype = f.text("datatype")};
  for (auto& [key, out] : {std::pair("shape", &t.shape), {"sizes", &t.sizes}})
    for (const json& dim : f.list(key)) {
      if (!dim.is_number_integer()) {
        f.fail(key, dim.dump() + " is no integer");
        break;
      }
      out->push_back(dim.get<int64_t>());
    }
  for (const json& value : f.list("sample")) {
    if (!value.is_number()) {
      f.fail("sample", value.dump() + " is no number");
      break;
    }
    t.sample.push_back(value.get<double>());
  }
  return f.finish(t);
}

Result<ModelSpec> model_spec_from(const json& j) {
  Fields f(j, "model");
  ModelSpec m;
  m.path = f.text("path");
  m.format = f.text("format", m.format);
  if (find_server_kind(m.format) == nullptr)
    f.fail("format", "\"" + m.format + "\" is not served: " + names_of_server_kinds() + " is");
  m.content = f.text("content");
  m.inputs = f.parts("inputs", tensor_spec_from);
  m.outputs = f.parts("outputs", tensor_spec_from);
  m.max_batch = static_cast<int>(f.integer("max_batch", 0, 0, 1024));
  m.sha256 = f.text("sha256");
  return f.finish(m);
}

Result<Batching> batching_from(const json& j) {
  Fields f(j, "batching");
  Batching b;
  b.max_size = static_cast<int>(f.integer("max_size", 1, 1, 1024));
  b.max_delay = Micros(f.integer("max_delay_us", 0, 0, 60'000'000));
  return f.finish(b);
}

Result<Part> part_from(const json& j) {
  Fields f(j, "part");
  Part p{.device = f.text("device")};
  p.slice = f.part("slice", &slice_from);
  p.position = f.part("position", &position_from);
  return f.finish(std::move(p));
}

Result<Instance> instance_from(const json& j) {
  Fields f(j, "instance");
  Instance i;
  i.id = f.text("id");
  i.function = function_name(f.text("function"));
  i.revision = static_cast<int>(f.integer("revision", 0, 0, kInt));
  const Result<InstanceState> state = instance_state_from(f.text("state", "starting"));
  if (state.ok()) i.state = *state;
  if (!state.ok()) f.fail("state", state.error().message);
  if (f.child("parts") != nullptr)
    i.parts = f.parts("parts", part_from);
  else  // from before parts existed
    i.parts = {
        {f.text("device"), f.part("slice", &slice_from), f.part("position", &position_from)}};
  if (i.parts.empty()) f.fail("parts", "is empty; an instance has at least one");
  i.batch = static_cast<int>(f.integer("batch", 1, 1, 1024));
  i.arbiter = f.text("arbiter");
  if (i.id.empty()) f.fail("id", "must not be empty");
  return f.finish(i);
}

Result<Reason> reason_from(const json& j) {
  Fields f(j, "reason");
  Reason r{.rule = f.text("rule"), .text = f.text("text")};
  for (const json& pair : f.list("numbers")) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_number()) {
      f.fail("numbers", pair.dump() + " is no [name, number]");
      break;
    }
    r.numbers.emplace_back(pair[0].get<std::string>(), pair[1].get<double>());
  }
  return f.finish(r);
}

std::string text_of(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// ---- Fields ----------------------------------------------------------------------------------

Fields::Fields(const json& object, std::string_view what) : object_(object), what_(what) {
  if (!object_.is_object())
    error_.message = what_ + ": " + object_.dump().substr(0, 40) + " is no object";
}

void Fields::fail(std::string_view key, std::string_view why) {
  if (error_.message.empty())
    error_.message = what_ + "." + std::string(key) + ": " + std::string(why);
}

const json* Fields::child(std::string_view key) {
  if (!object_.is_object()) return nullptr;
  const auto it = object_.find(std::string(key));
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

int64_t Fields::integer(std::string_view key, int64_t otherwise, int64_t low, int64_t high) {
  const json* c = child(key);
  if (c == nullptr) return otherwise;
  // An unsigned value above int64 must not wrap into range.
  const bool fits = c->is_number_integer() && (!c->is_number_unsigned() ||
                                               c->get<uint64_t>() <= static_cast<uint64_t>(kMost));
  if (!fits || c->get<int64_t>() < low || c->get<int64_t>() > high) {
    fail(key,
         c->dump() + " is no integer from " + std::to_string(low) + " to " + std::to_string(high));
    return otherwise;
  }
  return c->get<int64_t>();
}

double Fields::number(std::string_view key, double otherwise, double low, double high) {
  const json* c = child(key);
  if (c == nullptr) return otherwise;
  if (!c->is_number() || !(c->get<double>() >= low && c->get<double>() <= high)) {
    fail(key, c->dump() + " is no number from " + json(low).dump() + " to " + json(high).dump());
    return otherwise;
  }
  return c->get<double>();
}

bool Fields::boolean(std::string_view key, bool otherwise) {
  const json* c = child(key);
  if (c == nullptr) return otherwise;
  if (!c->is_boolean()) return fail(key, c->dump() + " is neither true nor false"), otherwise;
  return c->get<bool>();
}

std::string Fields::text(std::string_view key, std::string otherwise) {
  const json* c = child(key);
  if (c == nullptr) return otherwise;
  if (!c->is_string()) return fail(key, c->dump() + " is no text"), otherwise;
  return c->get<std::string>();
}

std::vector<json> Fields::list(std::string_view key) {
  const json* c = child(key);
  if (c == nullptr) return {};
  if (!c->is_array())
    return fail(key, c->dump().substr(0, 40) + " is no list"), std::vector<json>{};
  return {c->begin(), c->end()};
}

}  // namespace sluice::wire
