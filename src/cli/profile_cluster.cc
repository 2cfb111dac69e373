#include "cli/profile_cluster.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "cli/files.h"
#include "cli/kubectl.h"
#include "cli/table.h"
#include "control/profiles.h"
#include "wire/json/json.h"

namespace sluice::cli {
namespace {

using nlohmann::json;
using wire::http::verb;

constexpr int kLeastLeft = 20;  // per cent; a measurement with less says little

struct Place {
  std::string node;
  int left = 0;                 // per cent, of its device with the least left
  std::set<std::string> types;  // of its devices
};

// The nodes to measure on: for each type of CPU device the one with the most left.
Result<std::vector<Place>> places(const Session& session) {
  SLUICE_ASSIGN(rows, session.api(verb::get, "/v1/devices"));
  std::map<std::string, Place> nodes;
  for (const json& row : rows) {
    SLUICE_ASSIGN(device, wire::device_from(row));
    if (device.kind != DeviceKind::kCpu || device.drained) continue;
    Place& p = nodes.try_emplace(device.node, Place{device.node, 100, {}}).first->second;
    p.left = std::min(p.left, static_cast<int>(100 - row.value("reserved", int64_t{0}) / 10));
    p.types.insert(type_of(device).name);
  }
  std::vector<Place> all;
  for (const auto& [name, place] : nodes) all.push_back(place);
  std::ranges::stable_sort(all, std::ranges::greater(), &Place::left);
  std::set<std::string> measured;
  std::erase_if(all, [&](const Place& p) {
    const bool known = std::ranges::includes(measured, p.types);
    measured.insert(p.types.begin(), p.types.end());
    return known;
  });
  if (all.empty()) return Error{ErrorKind::kUnavailable, "no node has a CPU device to measure on"};
  return all;
}

// Function files, also of functions that were applied.
Result<std::vector<std::string>> texts_of(const Session& session, const ClusterProfile& wanted) {
  std::vector<std::string> texts;
  SLUICE_ASSIGN(files, read_files(wanted.files));
  for (const FunctionFile& file : files) texts.push_back(file.text);
  for (const std::string& name : wanted.names) {
    const FunctionName f = session.named(name);
    SLUICE_ASSIGN(printed, kubectl(session, {"get", "inferencefunction", f.name, "-n", f.space,
                                             "-o", "json"}));
    SLUICE_ASSIGN(object, wire::parse_json(printed));
    if (object.contains("/spec/server/image"_json_pointer))
      return Error{ErrorKind::kInvalid,
                   name +
                       ": its program is in an image of its own (server.image), and only what is "
                       "in Sluice's image can be measured"};
    texts.push_back(json{{"apiVersion", object["apiVersion"]},
                         {"kind", object["kind"]},
                         {"metadata", {{"name", f.name}, {"namespace", f.space}}},
                         {"spec", object["spec"]}}
                        .dump());
  }
  return texts;
}

struct Agent {
  std::string pod;
  std::string devices = "auto";  // its --devices
};

// The devices to measure on are to be made as the agent's are.
std::string devices_in(const json& words) {
  const std::string option = "--devices";
  std::string before;
  for (const json& word : words) {
    std::string text = word.get<std::string>();
    if (before == option) return text;
    if (text.starts_with(option + "=")) return text.substr(option.size() + 1);
    before = text;
  }
  return "auto";
}

Result<Agent> agent_on(const Session& session, const std::string& node) {
  SLUICE_ASSIGN(printed,
                kubectl(session, {"get", "pods", "-n", session.system, "-l",
                                  "app.kubernetes.io/name=sluice-agent", "--field-selector",
                                  "spec.nodeName=" + node, "-o", "json"}));
  SLUICE_ASSIGN(pods, wire::parse_json(printed));
  for (const json& pod : pods["items"])
    if (pod.value("/status/phase"_json_pointer, "") == "Running")
      return Agent{pod["metadata"]["name"],
                   devices_in(pod["spec"]["containers"][0].value("args", json::array()))};
  return Error{ErrorKind::kUnavailable, "no agent runs on node " + node};
}

std::string joined(const std::vector<int>& numbers) {
  std::string out;
  for (const int n : numbers) out += (out.empty() ? "" : ",") + std::to_string(n);
  return out;
}

// Quotas that the node has left.
std::vector<int> quotas_at(const Place& place, const std::vector<int>& wanted) {
  std::vector<int> quotas;
  for (const int q : wanted) quotas.push_back(std::min(q, place.left));
  quotas.erase(std::unique(quotas.begin(), quotas.end()), quotas.end());
  return quotas;
}

Result<json> measured_at(const Session& session, const Place& place, const std::string& text,
                         const ClusterProfile& wanted) {
  SLUICE_ASSIGN(agent, agent_on(session, place.node));
  std::vector<std::string> words{
      "exec",    "-i",        "-n",          session.system,
      agent.pod, "--",        "sluice",      "kube",
      "measure", "--devices", agent.devices, "--",
      "-f",      "-",         "--quotas",    joined(quotas_at(place, wanted.quotas))};
  words.insert(words.end(), wanted.words.begin(), wanted.words.end());
  std::cerr << "measures on " << place.node << "\n";
  SLUICE_ASSIGN(printed, kubectl(session, std::move(words), text));
  return wire::parse_json(printed);
}

}  // namespace

Result<void> profile_on_cluster(const Session& session, const ClusterProfile& wanted) {
  SLUICE_ASSIGN(texts, texts_of(session, wanted));
  SLUICE_ASSIGN(where, places(session));
  json all = json::array();
  for (const std::string& text : texts)
    for (const Place& place : where) {
      if (place.left < kLeastLeft)
        return Error{ErrorKind::kExhausted,
                     "no device of the type of " + place.node +
                         "'s has a fifth of its time left to "
                         "measure on; kubectl sluice get devices shows what holds them"};
      SLUICE_ASSIGN(profiles, measured_at(session, place, text, wanted));
      for (const json& p : profiles) {
        const auto put = session.api(verb::put, "/v1/profiles", p);
        if (!put.ok()) return put.error();
        SLUICE_ASSIGN(profile, control::profile_from(p));
        if (!session.json())
          std::cout << to_string(profile.function) << ": " << profile.points.size() << " points on "
                    << profile.device.name << ", measured on " << place.node << "\n";
        all.push_back(p);
      }
    }
  if (session.json()) print(all);
  return {};
}

}  // namespace sluice::cli
