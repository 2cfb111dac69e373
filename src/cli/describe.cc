// `sluice describe`: everything about a function, an instance or a device, and why.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "base/words.h"
#include "cli/decisions.h"
#include "cli/listing.h"
#include "cli/noun.h"
#include "cli/session.h"

namespace sluice::cli {
namespace {

using nlohmann::json;
using wire::http::verb;

std::string links_of(const json& device) {
  Table t({"LINK-TO", "NVLINKS", "PCIE"});
  for (const json& l : device["links"])
    t.add({l["to"], std::to_string(l["nvlinks"].get<int>()), l["path"]});
  return device["links"].empty() ? "" : "\n" + t.text();
}

std::string nics_of(const json& device) {
  Table t({"NIC", "PCIE"});
  for (const json& l : device["nics"]) t.add({l["nic"], l["path"]});
  return device["nics"].empty() ? "" : "\n" + t.text();
}

std::string identity_of(const json& gpu) {
  const int capability = gpu["compute_capability"];
  std::string text = gpu["uuid"].get<std::string>() + " at " + gpu["bus"].get<std::string>() +
                     ", compute capability " + std::to_string(capability / 10) + "." +
                     std::to_string(capability % 10);
  if (gpu.contains("memory_used")) text += ", " + bytes(gpu["memory_used"]) + " of memory in use";
  const std::string mps = gpu.value("mps_status", "");
  if (!mps.empty()) text += "\nMPS: " + mps;
  const std::string mig = gpu.value("mig", "none");
  if (mig != "none") text += "\nMIG: " + mig;
  return text + "\n";
}

// Returns the instances that live on a device, or belong to a function.
json living_with(const json& instances, const char* key, const json& value) {
  json out = json::array();
  for (const json& i : instances)
    if (i[key] == value && i["state"] != "gone") out.push_back(i);
  return out;
}

// Returns the arbiter that the device runs: the one that the user fixed, else that of its
// instances. Empty if neither says.
std::string arbiter_of(const json& device, const json& held) {
  std::string name = device.value("arbiter", "");
  for (const json& i : held)
    if (name.empty()) name = i.value("arbiter", "");
  return name.empty() ? "" : "arbiter: " + name + "\n";
}

// The device has that id or UUID.
Result<void> describe_device(const Session& session, const std::string& name) {
  SLUICE_ASSIGN(devices, session.api(verb::get, "/v1/devices"));
  SLUICE_ASSIGN(instances, session.api(verb::get, "/v1/instances"));
  const auto found = std::ranges::find_if(
      devices, [&](const json& d) { return d["id"] == name || d["uuid"] == name; });
  if (found == devices.end())
    return Error{ErrorKind::kNotFound, not_found("device", name, ids_of(devices))};
  json device = *found;
  const json held = living_with(by_part(instances), "device", device["id"]);
  if (session.json()) {
    device["instances"] = held;
    print(device);
    return {};
  }
  std::cout << listing("devices", json::array({device})) << "\n"
            << device["model"].get<std::string>() << " of " << device["node"].get<std::string>()
            << "\n"
            << arbiter_of(device, held) << (device["kind"] == "cuda" ? identity_of(device) : "")
            << links_of(device) << nics_of(device) << "\n"
            << listing("instances", held);
  return {};
}

// The instance may be a program of `sluice run`, by its id.
Result<void> describe_instance(const Session& session, const std::string& name) {
  SLUICE_ASSIGN(instances, session.api(verb::get, "/v1/instances"));
  const auto found =
      std::ranges::find_if(instances, [&](const json& i) { return i["id"] == name; });
  if (found == instances.end())
    return Error{ErrorKind::kNotFound, not_found("instance", name, ids_of(instances))};
  json instance = *found;
  constexpr int kSearched = 1000;  // decisions, newest first
  SLUICE_ASSIGN(all, session.api(verb::get, "/v1/decisions?limit=" + std::to_string(kSearched)));
  json about = json::array();
  for (const json& d : all)
    if (d["subject"] == name) about.push_back(d);
  if (session.json()) {
    instance["decisions"] = about;
    print(instance);
    return {};
  }
  std::cout << listing("instances", json::array({instance})) << "\n";
  if (const std::string why = instance["error"]; !why.empty()) std::cout << why << "\n\n";
  if (!instance["foreign"].get<bool>())
    std::cout << "what it printed: " << session.hint("logs " + name) << "\n\n";
  if (!about.empty()) std::cout << listing("decisions", about);
  return {};
}

// How a step of the job's model passes, in lines, and since when its plan knows. Empty if no group
// has begun yet.
std::string profile_of(const json& job) {
  if (const std::string why = job.value("not_profiled", ""); !why.empty())
    return "not profiled: " + why + "\n";
  if (!job.contains("profile")) return "";
  const json& p = job["profile"];
  const auto counted = [&](const char* key, const std::string& noun) {
    return p[key].dump() + " " + noun + (p[key] == 1 ? "" : "s");
  };
  const auto number = [&](const char* key) { return fixed(p[key], 1); };
  std::string out = "profile of " + counted("steps", "step") + " at " +
                    counted("workers", "worker") + " and batch " + p["batch"].dump() +
                    ": computation " + number("compute_ms") + " ms, optimizer " +
                    number("optimizer_ms") + " ms, gradients of " + bytes(p["bytes"]) + " in " +
                    counted("buckets", "bucket") + "\n";
  if (p["workers"] != 1)
    out += "their all-reduces: " + number("all_reduce_ms") + " ms, of which " +
           fixed(100 * p["overlap"].get<double>(), 0) + "% beside computation\n";
  return out + "known to the plan " + number("after_s") + " s after submission" +
         (p["predicts"] ? "; it predicts numbers of workers that were not measured\n"
                        : "; measured steps have replaced it since\n");
}

// What a training function's job did and does; empty for an inference function.
std::string job_of(const Session& session, const json& f) {
  if (!f.contains("job")) return "";
  const json& j = f["job"];
  std::string out;
  const auto line = [&](const std::string& text) { out += text + "\n"; };
  const std::string generation = "generation " + std::to_string(j.value("generation", int64_t{0})) +
                                 " of " + std::to_string(j.value("workers", 0)) + " workers";
  if (j.contains("step_ms")) {
    line("step " + j["step"].dump() + ", " + generation + "; a step takes " +
         fixed(j["step_ms"], 1) + " ms, of which " + fixed(j["wait_ms"], 1) +
         " ms wait for the others' gradients");
    line("batch " + j["batch"].dump() + ", learning rate " + fixed(j["learning_rate"], 4) +
         ", gradient noise scale " + fixed(j["noise"], 1) + ". " + j.value("batch_reason", ""));
  } else {
    line(generation);
  }
  out += profile_of(j);
  if (j.contains("checkpoint"))
    line("newest checkpoint: step " + j["checkpoint"]["step"].dump() + ", " +
         bytes(j["checkpoint"]["bytes"]) + ", " + fixed(j["checkpoint"]["seconds"], 2) + " s, " +
         j["checkpoint"]["path"].get<std::string>());
  if (const std::string why = j.value("checkpoint_trouble", ""); !why.empty())
    line("checkpoints: " + why);
  if (const std::string why = j.value("waits_for", ""); !why.empty()) line(why);
  if (const std::string why = j["trouble"]; !why.empty())
    line(j["state"].get<std::string>() + ": " + why);
  if (const std::string model = j.value("model", ""); !model.empty()) {
    const std::string file = model.substr(0, model.rfind('/')) + "/function.yaml";
    const bool described = std::filesystem::exists(file);  // by the trainer; a script's is not
    line("trained model: " + model +
         "; to serve it: " + session.hint(described ? "apply -f " + file : "init " + model));
  }
  Table t({"CHANGE", "WORKERS", "STOPPING", "FORMING"});
  for (const json& r : j.value("reforms", json::array()))
    t.add({r["why"], r["before"].dump() + " -> " + r["after"].dump(),
           fixed(r["stopping_ms"], 1) + "ms", fixed(r["forming_ms"], 1) + "ms"});
  return out + "\n" + t.text();
}

// Its groups of alike instances; empty if none serves.
std::string groups_of(const json& f) {
  const json groups = f.value("groups", json::array());
  if (groups.empty()) return "";
  std::ostringstream percentile;
  percentile << f["percentile"].get<double>();
  return "groups of alike instances in the last 10 s, latency at the " + percentile.str() +
         "th percentile:\n" + listing("groups", groups) + "\n";
}

Result<void> describe_function(const Session& session, const std::string& name) {
  SLUICE_ASSIGN(f, session.api(verb::get, session.function_path(name)));
  constexpr int kShown = 15;
  SLUICE_ASSIGN(decisions, decisions_of(session, name, kShown));
  SLUICE_ASSIGN(instances, session.api(verb::get, "/v1/instances"));
  SLUICE_ASSIGN(status, session.api(verb::get, "/v1/status"));
  json own = json::array();
  for (const json& i : instances)
    if (i["function"] == to_string(session.named(name))) own.push_back(i);
  if (session.json()) {
    f["instances"] = own;
    f["enforcement"] = status["enforcement"];
    f["decisions"] = decisions;
    print(f);
    return {};
  }
  std::cout << listing(f.contains("job") ? "jobs" : "functions", json::array({f})) << "\n"
            << f["file"].get<std::string>() << "\n";
  std::cout << "policy " << f["policy"].get<std::string>();
  if (f.contains("job"))
    std::cout << ", plan " << f["plan"].get<std::string>();
  else
    std::cout << ", forecast " << fixed(f["forecast"], 1) << "/s, " << f["queued"] << " waiting, "
              << f["in_flight"] << " at instances";
  std::cout << "\n"
            << job_of(session, f) << "enforcement: " << status["enforcement"].get<std::string>()
            << "\n";
  for (const json& v : f.value("variants", json::array()))
    if (const std::string fault = v["fault"]; !fault.empty())
      std::cout << "not used: devices of type " << v["device_type"].get<std::string>() << ": "
                << fault << "\n";
  if (!f["unavailable"].get<std::string>().empty())
    std::cout << "unavailable: " << f["unavailable"].get<std::string>() << "\n";
  if (!f["rollout_failed"].get<std::string>().empty())
    std::cout << "rollout: " << f["rollout_failed"].get<std::string>() << "\n";
  std::cout << "\n"
            << groups_of(f) << listing("instances", own) << "\n"
            << listing("decisions", decisions);
  return {};
}

// Describes a function, else an instance or a device of that name.
Result<void> describe_any(const Session& session, const std::string& name) {
  auto described = describe_function(session, name);
  using Describe = Result<void> (*)(const Session&, const std::string&);
  for (const Describe other : {Describe(describe_instance), Describe(describe_device)}) {
    if (described.ok() || described.error().kind != ErrorKind::kNotFound) return described;
    if (auto found = other(session, name); found.ok() || found.error().kind != ErrorKind::kNotFound)
      return found;
  }
  return described;
}

// The words are "NAME", or "NOUN NAME".
Result<void> describe(const Session& session, const std::vector<std::string>& words) {
  if (words.size() == 1) return describe_any(session, words[0]);
  std::string what = words[0];
  if (const std::string fault = noun()(what); !fault.empty())
    return Error{ErrorKind::kInvalid, fault};
  if (what == "functions") return describe_function(session, words[1]);
  if (what == "jobs") {
    const auto there = session.api(verb::get, session.function_path(words[1]));
    if (there.ok() && !there->contains("job")) return no_job(words[1]);
    return describe_function(session, words[1]);
  }
  if (what == "instances") return describe_instance(session, words[1]);
  if (what == "devices") return describe_device(session, words[1]);
  return Error{ErrorKind::kInvalid,
               what + ": functions, jobs, instances and devices can be described"};
}

}  // namespace

void add_describe(CLI::App& app, Session& session, Outcome& outcome) {
  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* command = app.add_subcommand(
      "describe", "everything about a function, an instance or a device, and why");
  command->add_option("function", *words, "its name; or NOUN NAME, as in: device cpu0")
      ->required()
      ->expected(1, 2);
  add_namespace(*command, session);
  command->callback([=, &session, &outcome] { outcome = describe(session, *words); });
}

}  // namespace sluice::cli
