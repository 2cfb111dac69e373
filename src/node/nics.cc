#include "node/nics.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <set>

namespace sluice::node {
namespace {

namespace fs = std::filesystem;

// Every x in `pattern` stands for a hexadecimal digit.
bool matches(const std::string& text, const std::string& pattern) {
  return std::ranges::equal(text, pattern, [](char c, char p) {
    return p == 'x' ? std::isxdigit(static_cast<unsigned char>(c)) != 0 : c == p;
  });
}

bool is_root(const std::string& step) {
  return matches(step, "pcixxxx:xx") || matches(step, "pcixxxxx:xx");  // behind Intel's VMD
}
bool is_function(const std::string& step) {
  return matches(step, "xxxx:xx:xx.x") || matches(step, "xxxxx:xx:xx.x");
}

// NVML's 00000000:3B:00.0 is the kernel's 0000:3b:00.0: a domain has four digits there, or more if
// needed.
std::string kernels_name(std::string bus) {
  std::ranges::transform(bus, bus.begin(), [](unsigned char c) { return std::tolower(c); });
  while (bus.find(':') > 4 && bus.find(':') != std::string::npos && bus.starts_with('0'))
    bus.erase(0, 1);
  return bus;
}

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code fault;
  for (fs::directory_iterator entry(folder, fault), end; !fault && entry != end;
       entry.increment(fault))
    entries.push_back(entry->path());
  std::ranges::sort(entries);
  return entries;
}

}  // namespace

NicTopology::NicTopology(const fs::path& sys) : sys_(sys) {
  add(sys_ / "class/infiniband");
  add(sys_ / "class/net");
  std::ranges::sort(nics_, {}, &Nic::name);
}

void NicTopology::add(const fs::path& devices) {
  for (const fs::path& entry : sorted_entries(devices)) {
    std::error_code absent;
    if (fs::exists(entry / "device/physfn", absent)) continue;  // a virtual function of another
    Nic nic{entry.filename(), place_of(entry / "device")};
    const bool known = std::ranges::any_of(
        nics_, [&](const Nic& other) { return other.place.steps == nic.place.steps; });
    if (!nic.place.steps.empty() && !known) nics_.push_back(std::move(nic));
  }
}

// Returns the place behind the link: …/pci0000:3a/0000:3a:00.0/0000:3b:00.0, for some cards
// followed by a device of their own (virtio0). Returns nothing if it is not on PCIe.
NicTopology::Place NicTopology::place_of(const fs::path& device) {
  std::error_code fault;
  const fs::path real = fs::canonical(device, fault);
  Place place;
  if (fault) return place;
  fs::path function;  // the folder of the last step
  fs::path so_far;
  for (const fs::path& part : real) {
    so_far /= part;
    const std::string step = part;
    if (is_root(step)) place.steps = {step};
    if (place.steps.empty() || !is_function(step)) continue;
    place.steps.push_back(step);
    function = so_far;
  }
  if (function.empty()) return Place{};
  if (!(std::ifstream(function / "numa_node") >> place.numa_node)) place.numa_node = -1;
  return place;
}

// Below the common ancestor each side has itself, or a switch's port and itself, or more switches.
PciePath NicTopology::between(const Place& one, const Place& other) {
  const auto [a, b] = std::ranges::mismatch(one.steps, other.steps);
  const auto common = a - one.steps.begin();
  if (common == 0)
    return one.numa_node == other.numa_node ? PciePath::kNumaNode : PciePath::kSystem;
  if (common == 1) return PciePath::kHostBridge;
  const auto below = std::max(one.steps.end() - a, other.steps.end() - b);
  return below <= 2 ? PciePath::kSwitch : PciePath::kSwitches;
}

std::vector<NicLink> NicTopology::near(const std::string& bus) const {
  const Place gpu = place_of(sys_ / "bus/pci/devices" / kernels_name(bus));
  std::vector<NicLink> links;
  if (bus.empty() || gpu.steps.empty()) return links;
  for (const Nic& nic : nics_) links.push_back({nic.name, between(gpu, nic.place)});
  return links;
}

}  // namespace sluice::node
