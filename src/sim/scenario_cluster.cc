#include "sim/scenario_cluster.h"

#include <algorithm>
#include <set>

#include "base/words.h"
#include "model/quantity.h"
#include "policy/loans.h"
#include "trace/clusters.h"

namespace sluice::sim {
namespace {

using control::Fields;

constexpr int kMostDevices = 10'000;

class ClusterReader {
 public:
  ClusterReader(const std::filesystem::path& folder, ClusterPlan& out)
      : folder_(folder), out_(out) {}

  void stepping(Fields& f);
  void cold_starts(Fields& f);
  void device(Fields& f);

 private:
  void kind(Fields& f, DevicePlan& device);
  void virtual_clusters(Fields& f, size_t first);
  void add_node(DevicePlan device, const std::string& name, int count);
  void recorded_nodes(Fields& f, const std::string& path, const DevicePlan& device);

  const std::filesystem::path& folder_;
  ClusterPlan& out_;
};

void ClusterReader::stepping(Fields& f) {
  std::string name;
  if (!f.text("stepping", name)) return;
  const auto found = find_stepping(name);
  if (!found) return f.complain("stepping", "\"" + name + "\" is neither exact nor fluid");
  out_.stepping = *found;
}

void ClusterReader::cold_starts(Fields& f) {
  const YAML::Node node = f.take("coldStart");
  if (!node.IsDefined()) {
    out_.cold_starts = {Seconds(2)};
    return;
  }
  const auto add = [&](const YAML::Node& item) {
    const auto d = sluice::parse_duration(item.IsScalar() ? item.Scalar() : "");
    if (!d.ok())
      f.complain("coldStart", d.error().message);
    else if (*d > std::chrono::hours(1))
      f.complain("coldStart", "is more than 1h");
    else
      out_.cold_starts.push_back(*d);
  };
  if (!node.IsSequence()) return add(node);
  for (const YAML::Node& item : node) add(item);
  if (node.size() == 0) f.complain("coldStart", "must be a duration, or a list of some");
}

void ClusterReader::device(Fields& f) {
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
  kind(f, plan);
  f.duration("grain", plan.physics.grain, Micros(1), Seconds(10));
  f.share("contention", plan.physics.contention);
  f.duration("meterLag", plan.physics.meter_lag, Micros(100), Seconds(1));
  for (const DevicePlan& other : out_.devices)
    if (other.device.model == d.model)
      return f.complain("type", "\"" + d.model + "\" stands twice");
  const size_t first = out_.devices.size();
  const std::string nodes = read_word(f, "nodes");
  if (nodes.empty()) {
    for (int node = 0; node * per_node < count; ++node)
      add_node(plan, d.model + "-n" + four_digits(node),
               std::min(per_node, count - node * per_node));
  } else {
    recorded_nodes(f, nodes, plan);
  }
  virtual_clusters(f, first);
  if (out_.devices.size() > kMostDevices)
    f.complain(nodes.empty() ? "count" : "nodes",
               "there are more than " + std::to_string(kMostDevices) + " devices");
}

// The first of the row's nodes are inference's, the next ones training's, the rest for both.
void ClusterReader::virtual_clusters(Fields& f, size_t first) {
  std::set<std::string> nodes;
  for (size_t d = first; d < out_.devices.size(); ++d) nodes.insert(out_.devices[d].device.node);
  const int most = static_cast<int>(nodes.size());
  int inference = 0, training = 0;
  f.integer("inferenceNodes", inference, 0, most);
  f.integer("trainingNodes", training, 0, most - inference);
  int number = 0;
  for (const std::string& node : nodes) {
    if (number < inference + training)
      out_.virtual_clusters[node] =
          number < inference ? policy::kForInference : policy::kForTraining;
    ++number;
  }
}

// Whether the devices are GPUs, and what only those have. To the loop they are the devices that its
// model servers compute on.
void ClusterReader::kind(Fields& f, DevicePlan& device) {
  std::string kind = "cpu";
  f.text("kind", kind);
  if (kind != "cpu" && kind != "gpu") f.complain("kind", "\"" + kind + "\" is neither cpu nor gpu");
  GpuPhysics gpu{.side_by_side = device.device.sm_quantum < kWhole};
  for (const char* key : {"slice", "switch", "linger"})
    if (kind == "cpu" && f.has(key)) f.complain(key, "goes with kind: gpu");
  f.duration("slice", gpu.slice, Micros(100), Seconds(1));
  f.duration("switch", gpu.switching, Nanos(0), Millis(100));
  f.duration("linger", gpu.linger, Nanos(0), Millis(100));
  if (kind != "gpu") return;
  device.physics.gpu = gpu;
  const auto exact = check_stepping(out_.stepping, device.physics);
  if (!exact.ok()) f.complain("kind", exact.error().message);
}

void ClusterReader::add_node(DevicePlan device, const std::string& name, int count) {
  for (int i = 0; i < count && out_.devices.size() <= kMostDevices; ++i) {
    device.device.node = name;
    device.device.id = name + "/" + four_digits(i).substr(2);
    out_.devices.push_back(device);
  }
}

// The nodes of Alibaba's list that have GPUs of the type.
void ClusterReader::recorded_nodes(Fields& f, const std::string& path, const DevicePlan& device) {
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

}  // namespace

void read_cluster(const ScenarioPart& spec, const std::filesystem::path& folder, ClusterPlan& out) {
  Fields& f = spec.fields;
  ClusterReader reader(folder, out);
  reader.stepping(f);
  reader.cold_starts(f);
  f.duration("hop", out.hop, Nanos(0), Seconds(1));
  f.need("devices", "a list of {type, count, memory}");
  read_each(spec, "devices", 1, [&](Fields& d) { reader.device(d); });
  const auto id = [](const DevicePlan& d) { return d.device.id; };
  std::ranges::sort(out.devices, {}, id);
  const auto twice = std::ranges::adjacent_find(out.devices, {}, id);
  if (twice != out.devices.end())
    f.complain("devices", "device " + twice->device.id + " stands twice");
}

}  // namespace sluice::sim
