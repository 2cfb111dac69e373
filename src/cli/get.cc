// `sluice get …` and `sluice describe`: what there is, a line each or in full.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <iostream>

#include "base/clock.h"
#include "cli/functions_table.h"
#include "cli/session.h"
#include "control/quantity.h"

namespace sluice::cli {
namespace {

using nlohmann::json;
using wire::http::verb;

// What there is to get, in the words that users have for it.
struct Noun {
  std::string_view many, one, brief;
};
constexpr Noun kNouns[] = {{"functions", "function", "fn"},
                           {"revisions", "revision", "rev"},
                           {"instances", "instance", "inst"},
                           {"devices", "device", "dev"},
                           {"decisions", "decision", "dec"}};

// Turns each of a noun's words into the first.
CLI::Validator noun() {
  const auto turn = [](std::string& word) {
    std::string all;
    for (const Noun& n : kNouns) {
      if (word == n.many || word == n.one || word == n.brief) {
        word = n.many;
        return std::string();
      }
      all += (all.empty() ? "" : ", ") + std::string(n.many) + " (" + std::string(n.brief) + ")";
    }
    return "'" + word + "' is none of " + all;
  };
  return {turn, "NOUN"};
}

std::string clock_time(int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm local{};
  localtime_r(&seconds, &local);
  char text[32];
  std::strftime(text, sizeof(text), "%H:%M:%S", &local);
  return text;
}

// As commands take it: without the namespace where that is the default.
std::string short_name(const json& function) {
  const std::string space = function["namespace"];
  return (space == "default" ? "" : space + "/") + function["name"].get<std::string>();
}

std::string cores_of(const json& device) {
  const int sms = device["sms"];
  if (device["kind"] == "cuda") return sms > 0 ? std::to_string(sms) + " SM" : "-";
  return fixed(device["millicores"].get<double>() / 1000, 2);
}

// Held, of what it may hold.
std::string device_memory(const json& instance) {
  if (!instance.contains("memory_held")) return "-";
  return bytes(instance["memory_held"]) + " of " + bytes(instance["slice"]["memory"]);
}

// Why it has ended, or what is wrong with it.
std::string why_of(const json& instance) {
  std::string error = instance["error"].get<std::string>().substr(0, 60);
  if (!error.empty() || instance.value("ungated_ms", 0) == 0) return error;
  return "uses its GPU past the hook: " + fixed(instance["ungated_ms"].get<double>() / 1000, 1) +
         "s, charged";
}

std::string state_of(const json& device) {
  const std::string fault = device.value("fault", "");
  if (!fault.empty()) return "failing: " + fault;
  if (!device["drained"].get<bool>()) return "ready";
  const std::string why = device.value("set_apart", "");
  return why.empty() ? "drained" : "drained: " + why;
}

std::string busy_of(const json& device) {
  if (!device.contains("busy_percent")) return "-";
  return std::to_string(device["busy_percent"].get<int>()) + "%";
}

// Of a program's own; that of an instance is its function's.
std::string slo_of(const json& slice) {
  const int64_t us = slice.value("slo_us", 0);
  return us == 0 ? "-" : control::format_duration(Micros(us));
}

std::string rows(const std::string& what, const json& list) {
  const auto share = [](const json& row, const char* key) {
    return percent(row["slice"].value(key, 0));
  };
  if (what == "functions") return functions_table(list);
  if (what == "revisions") {
    Table t({"FUNCTION", "REVISION", "TRAFFIC", "SLO", "MODEL", "AGE"});
    for (const json& r : list)
      t.add({r["function"], std::to_string(r["revision"].get<int>()),
             std::to_string(r["percent"].get<int>()) + "%", fixed(r["slo_ms"], 0) + "ms",
             r["model"], age(unix_now() - r["created"].get<int64_t>())});
    return t.text();
  }
  if (what == "instances") {
    Table t({"INSTANCE", "FUNCTION", "REVISION", "STATE", "DEVICE", "SM", "REQUEST", "LIMIT", "SLO",
             "BATCH", "PID", "USED-S", "MEM", "GPU-MEM", "READY-AFTER", "WHY"});
    for (const json& r : list)
      t.add({r["id"], r["function"], std::to_string(r["revision"].get<int>()), r["state"],
             r["device"], share(r, "sm"), share(r, "request"), share(r, "limit"),
             slo_of(r["slice"]), std::to_string(r["batch"].get<int>()),
             std::to_string(r["pid"].get<int64_t>()), fixed(r["used_ms"].get<double>() / 1000, 1),
             bytes(r["peak_memory"]), device_memory(r),
             std::to_string(r["ready_after_ms"].get<int64_t>()) + "ms", why_of(r)});
    return t.text();
  }
  if (what == "devices") {
    Table t({"DEVICE", "KIND", "CORES", "MEM", "SM-QUANTUM", "INSTANCES", "RESERVED", "BUSY",
             "PRICE/H", "BACKSTOP", "STATE"});
    for (const json& r : list)
      t.add({r["id"], r["kind"], cores_of(r), bytes(r["memory"]), percent(r["sm_quantum"]),
             std::to_string(r["instances"].get<int>()), percent(r["reserved"]), busy_of(r),
             fixed(r["price_per_hour"], 3), r["backstop"].get<bool>() ? "kernel" : "none",
             state_of(r)});
    return t.text();
  }
  Table t({"TIME", "FUNCTION", "ACTION", "SUBJECT", "RULE", "WHY"});
  for (const json& r : list) {
    std::string why = r["reason"]["text"];
    if (!r["fault"].get<std::string>().empty()) why += " FAILED: " + r["fault"].get<std::string>();
    t.add(
        {clock_time(r["at"]), r["function"], r["action"], r["subject"], r["reason"]["rule"], why});
  }
  return t.text();
}

// What other commands know a row by, a line each; for the shell's completion.
Result<void> print_names(const std::string& what, const json& list) {
  if (what != "functions" && what != "instances" && what != "devices")
    return Error{ErrorKind::kInvalid,
                 "--names: " + what + " have none; functions, instances and devices do"};
  for (const json& row : list)
    std::cout << (what == "functions" ? short_name(row) : row["id"].get<std::string>()) << "\n";
  return {};
}

struct GetFlags {
  std::string what, of;
  int limit = 30;
  bool names = false;
};

Result<void> get(const Session& session, const GetFlags& f) {
  const auto& [what, of, limit, names] = f;
  std::string target = "/v1/" + what;
  if (what == "decisions") target += "?limit=" + std::to_string(limit) + "&function=" + escaped(of);
  if (what == "revisions" && !of.empty()) target += "?function=" + escaped(of);
  SLUICE_ASSIGN(list, session.api(verb::get, target));
  if (!of.empty() && (what == "functions" || what == "instances")) {
    json kept = json::array();
    const std::string full = to_string(function_name(of));
    for (const json& row : list)
      if ((what == "functions"
               ? row["namespace"].get<std::string>() + "/" + row["name"].get<std::string>()
               : row["function"].get<std::string>()) == full)
        kept.push_back(row);
    if (what == "functions" && kept.empty())
      return Error{ErrorKind::kNotFound, "function '" + full + "' not found"};
    list = kept;
  }
  if (names) return print_names(what, list);
  if (session.json())
    print(list);
  else
    std::cout << rows(what, list);
  return {};
}

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

// By its id or its UUID.
Result<void> describe_device(const Session& session, const std::string& name) {
  SLUICE_ASSIGN(devices, session.api(verb::get, "/v1/devices"));
  SLUICE_ASSIGN(instances, session.api(verb::get, "/v1/instances"));
  const auto found = std::ranges::find_if(
      devices, [&](const json& d) { return d["id"] == name || d["uuid"] == name; });
  if (found == devices.end()) return Error{ErrorKind::kNotFound, "device '" + name + "' not found"};
  json device = *found, held = json::array();
  for (const json& i : instances)
    if (i["device"] == device["id"] && i["state"] != "gone") held.push_back(i);
  if (session.json()) {
    device["instances"] = held;
    print(device);
    return {};
  }
  std::cout << rows("devices", json::array({device})) << "\n"
            << device["model"].get<std::string>() << " of " << device["node"].get<std::string>()
            << "\n"
            << (device["kind"] == "cuda" ? identity_of(device) : "") << links_of(device)
            << nics_of(device) << "\n"
            << rows("instances", held);
  return {};
}

Result<void> describe_function(const Session& session, const std::string& name) {
  SLUICE_ASSIGN(f, session.api(verb::get, function_path(name)));
  SLUICE_ASSIGN(decisions,
                session.api(verb::get, "/v1/decisions?limit=15&function=" + escaped(name)));
  SLUICE_ASSIGN(instances, session.api(verb::get, "/v1/instances"));
  SLUICE_ASSIGN(status, session.api(verb::get, "/v1/status"));
  json own = json::array();
  for (const json& i : instances)
    if (i["function"] == to_string(function_name(name))) own.push_back(i);
  if (session.json()) {
    f["instances"] = own;
    f["enforcement"] = status["enforcement"];
    f["decisions"] = decisions;
    print(f);
    return {};
  }
  std::cout << rows("functions", json::array({f})) << "\n" << f["file"].get<std::string>() << "\n";
  std::cout << "policy " << f["policy"].get<std::string>() << ", forecast "
            << fixed(f["forecast"], 1) << "/s, " << f["queued"] << " waiting, " << f["in_flight"]
            << " at instances\n"
            << "enforcement: " << status["enforcement"].get<std::string>() << "\n";
  if (!f["unavailable"].get<std::string>().empty())
    std::cout << "unavailable: " << f["unavailable"].get<std::string>() << "\n";
  if (!f["rollout_failed"].get<std::string>().empty())
    std::cout << "rollout: " << f["rollout_failed"].get<std::string>() << "\n";
  std::cout << "\n" << rows("instances", own) << "\n" << rows("decisions", decisions);
  return {};
}

// "NAME" of a function, or "device NAME".
Result<void> describe(const Session& session, const std::vector<std::string>& words) {
  if (words.size() == 1) return describe_function(session, words[0]);
  std::string what = words[0];
  if (const std::string fault = noun()(what); !fault.empty())
    return Error{ErrorKind::kInvalid, fault};
  if (what == "functions") return describe_function(session, words[1]);
  if (what == "devices") return describe_device(session, words[1]);
  return Error{ErrorKind::kInvalid, what + ": functions and devices can be described"};
}

}  // namespace

std::string functions_table(const json& list) {
  Table t({"NAME", "READY", "REPLICAS", "SM", "QUOTA", "MEM", "SLO", "P95", "VIOL", "RPS", "COLD",
           "COST/1K", "LAST-DECISION", "AGE"});
  for (const json& r : list) {
    const json& n = r["replicas"];
    std::string last = "-";
    if (!r["last_decision"].is_null())
      last = r["last_decision"]["action"].get<std::string>() + " " +
             r["last_decision"]["reason"]["rule"].get<std::string>() + " " +
             age(unix_now() - r["last_decision"]["at"].get<int64_t>());
    if (!r["unavailable"].get<std::string>().empty())
      last = r["unavailable"].get<std::string>().substr(0, 60);
    t.add({short_name(r), r["ready"].get<bool>() ? "yes" : "no",
           std::to_string(n["ready"].get<int>()) + "/" +
               std::to_string(n["ready"].get<int>() + n["starting"].get<int>()),
           percent(r["sm"]), percent(r["request"]), bytes(r["memory"]),
           fixed(r["slo_ms"], 0) + "ms", fixed(r["p95_ms"], 0) + "ms",
           fixed(r["violations_pct"], 1) + "%", fixed(r["rps"], 1),
           std::to_string(r["cold_starts"].get<int64_t>()), fixed(r["cost_per_1k"], 4), last,
           age(r["age_ms"])});
  }
  return t.text();
}

void add_get(CLI::App& app, Session& session, Outcome& outcome) {
  auto f = std::make_shared<GetFlags>();
  CLI::App* command =
      app.add_subcommand("get", "list functions, revisions, instances, devices or decisions");
  command->add_option("what", f->what, "also in short: fn, rev, inst, dev, dec")
      ->required()
      ->transform(noun());
  command->add_option("function", f->of, "only of this function");
  command->add_option("--limit", f->limit, "of decisions")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command->add_flag("--names", f->names, "of functions, instances or devices: a line each");
  command->callback([=, &session, &outcome] { outcome = get(session, *f); });
  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* describe_command =
      app.add_subcommand("describe", "everything about a function, and why; or about a device");
  describe_command->add_option("function", *words, "its name; or: device DEVICE")
      ->required()
      ->expected(1, 2);
  describe_command->callback([=, &session, &outcome] { outcome = describe(session, *words); });
}

}  // namespace sluice::cli
