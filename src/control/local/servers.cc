#include "control/local/servers.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "policy/loans.h"

namespace sluice::control {
namespace {

constexpr int kMostServers = 64;

bool read_count(std::string_view text, int& count) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  return error == std::errc() && end == text.data() + text.size() && count >= 0;
}

}  // namespace

Result<Servers> servers_from(const std::string& text) {
  Servers servers;
  const Error fault{ErrorKind::kInvalid, "servers: '" + text +
                                             "' is neither a number such as 4 nor " +
                                             "inference=2,training=2, of 1 to " +
                                             std::to_string(kMostServers) + " servers together"};
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = std::string_view(text).substr(begin, end - begin);
    const size_t equals = item.find('=');
    const std::string_view name = item.substr(0, equals);
    int& count = equals == item.npos             ? servers.both
                 : name == policy::kForInference ? servers.inference
                                                 : servers.training;
    const bool known =
        equals == item.npos || name == policy::kForInference || name == policy::kForTraining;
    if (!known || count != 0 || !read_count(item.substr(equals + 1), count) ||
        count > kMostServers || end + 1 == text.size())
      return fault;
    begin = end + 1;
  }
  if (!text.empty() && (servers.all() < 1 || servers.all() > kMostServers)) return fault;
  return servers;
}

void divide(const Servers& servers, Observation& observation) {
  const size_t devices = observation.devices.size();
  if (servers.all() == 0 || observation.nodes.size() != 1 || devices == 0) return;
  const size_t count = std::min(static_cast<size_t>(servers.all()), devices);
  const auto inference = static_cast<size_t>(servers.inference);
  const auto training = static_cast<size_t>(servers.training);
  const ObservedNode machine = std::move(observation.nodes.front());
  observation.nodes.clear();
  std::map<DeviceId, std::string> node_of;
  for (size_t s = 0; s < count; ++s) {
    ObservedNode node = machine;
    const std::string number = std::to_string(s + 1);
    node.node.name = "server" + std::string(number.size() < 2 ? "0" : "") + number;
    node.node.devices.clear();
    node.node.links.clear();
    const bool serves = s < inference;
    if (serves || s < inference + training)
      node.node.labels[std::string(policy::kVirtualCluster)] =
          serves ? policy::kForInference : policy::kForTraining;
    observation.nodes.push_back(std::move(node));
  }
  for (size_t d = 0; d < devices; ++d) {
    Device& device = observation.devices[d];
    Node& node = observation.nodes[d * count / devices].node;
    device.node = node.name;
    node.devices.push_back(device.id);
    node_of[device.id] = node.name;
  }
  for (ObservedInstance& o : observation.instances)
    if (const auto at = node_of.find(o.instance.parts.front().device); at != node_of.end())
      o.node = at->second;
}

}  // namespace sluice::control
