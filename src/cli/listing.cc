#include "cli/listing.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "base/clock.h"
#include "base/printable.h"
#include "base/words.h"

namespace sluice::cli {
namespace {

using nlohmann::json;

constexpr size_t kContentDigits = 12;
constexpr size_t kWhyWidth = 60;  // of an explanation in a listing; `describe` shows it whole

struct Column {
  const char *name, *meaning;
};
using Columns = std::vector<Column>;

const Columns kFunctions{
    {"NAME", "as commands take it"},
    {"READY", "instances that serve / instances that there should be now"},
    {"SM", "share of a device's cores that its instances hold, summed"},
    {"QUOTA", "share of time that they may count on, summed"},
    {"MEM", "memory that they hold"},
    {"SLO", "the latency objective; - without one"},
    {"P95", "95th percentile of the latency over the last minute; - without requests"},
    {"VIOL", "late, shed or failed requests of the last minute; - without requests"},
    {"RPS", "requests a second, over the last 5 s"},
    {"COLD", "requests that had to wait for an instance to start"},
    {"COST/1K", "cost of 1,000 answered requests; - before the first"},
    {"LAST-DECISION", "what was decided last, by which rule and how long ago; or why none serves"},
    {"AGE", "since the function was made"}};
const Columns kRevisions{
    {"FUNCTION", "whose revision"},
    {"REVISION", "numbered from 1 by each change of the function"},
    {"TRAFFIC", "its part of the function's traffic"},
    {"SLO", "the latency objective; - without one"},
    {"MODEL", "the model file"},
    {"CONTENT", "of the model: its SHA-256 begins so; - where it is not known"},
    {"AGE", "since it was applied"}};
const Columns kInstances{
    {"INSTANCE", "its name, for `sluice logs` and `sluice describe instance`"},
    {"FUNCTION", "whose instance; for a program of `sluice run` its --function"},
    {"REVISION", "of the function"},
    {"STATE", "starting, ready, draining, or gone (for a minute)"},
    {"DEVICE", "where it runs; of several parts, a row each"},
    {"SM", "share of the device's cores or SMs that it holds"},
    {"REQUEST", "share of time that it may count on"},
    {"LIMIT", "share of time that it may use while others are idle"},
    {"SLO", "objective for its iterations, of a program of `sluice run`"},
    {"BATCH", "requests that it runs at once"},
    {"PID", "its process"},
    {"USED-S", "busy time so far, in seconds"},
    {"MEM", "the most memory that it held"},
    {"GPU-MEM", "GPU memory held, of what it may hold"},
    {"READY-AFTER", "from its start until it served"},
    {"AGE", "since its process began"},
    {"WHY", "why it ended, or what is wrong with it"}};
const Columns kGroups{
    {"REVISION", "of the function"},
    {"TYPE", "of its devices"},
    {"SM", "share of the device's cores or SMs that each instance holds"},
    {"QUOTA", "share of time that each may count on"},
    {"BATCH", "requests that each runs at once"},
    {"INSTANCES", "that serve"},
    {"REQUESTS/S", "answered, by all of them"},
    {"INFER/S", "inferences of these"},
    {"CONCURRENCY", "requests that they had in hand, on average"},
    {"LATENCY", "at the objective's percentile; - without an answer"},
    {"BODY", "mean size of a request; - without an answer"},
    {"RATE", "inferences a busy second of one instance answers; - if it is hardly used"},
    {"QUEUE", "of an inference in its program, as that counts (server.metrics); - if unknown"},
    {"COMPUTE", "of an inference, likewise"}};
const Columns kDevices{{"DEVICE", "its name, for `sluice describe device`"},
                       {"KIND", "cpu or cuda"},
                       {"TYPE", "devices of one type share profiles and the price"},
                       {"CORES", "of a CPU device; SMs of a GPU"},
                       {"MEM", "its memory"},
                       {"SM-QUANTUM", "the step in which its cores or SMs are given out"},
                       {"INSTANCES", "on it now"},
                       {"RESERVED", "what its instances may count on, of all its time and cores"},
                       {"BUSY", "as NVIDIA's library reports it"},
                       {"PRICE/H", "what costs are counted with"},
                       {"BACKSTOP", "kernel: programs that pass no gate are held, too"},
                       {"STATE", "ready, drained or failing"}};
const Columns kDecisions{
    {"TIME", "of day, here"},    {"FUNCTION", "decided for"},
    {"ACTION", "what was done"}, {"SUBJECT", "to which instance, revision or device"},
    {"RULE", "of the policy"},   {"WHY", "in words and numbers"}};

const Columns kProfiles{
    {"FUNCTION", "for which it was measured; others with this model use it, too"},
    {"MODEL", "the model file"},
    {"TYPE", "of devices, on which it holds; - on all"},
    {"SOURCE",
     "measured, or estimated from the model's operators, and by how much that may be off"},
    {"LIVE", "instances need so many times as long, by which decisions go"},
    {"POINTS", "batches and slices with a time"},
    {"ALONE", "median of one request, alone on a whole device, before LIVE"},
    {"MEM", "of one instance; - not measured"},
    {"AGE", "since it was measured or estimated"},
    {"CONDITIONS", "the machine and versions then, or the weights of the estimate"}};

const Columns kJobs{{"NAME", "as commands take it"},
                    {"STATE", "queued, running, stalled, paused, finished or failed"},
                    {"DEVICES", "that its workers hold now"},
                    {"EPOCH", "the one that it is in / all"},
                    {"DONE", "of the samples of all epochs"},
                    {"LOSS", "mean of the last step's samples"},
                    {"BATCH", "samples of a step, over all workers"},
                    {"RATE", "the learning rate: linear in the batch; - if unknown"},
                    {"SAMPLES/S", "over the last moments"},
                    {"GOODPUT", "the same, as samples of its least batch would count"},
                    {"NOISE", "gradient noise scale in samples; - while unknown"},
                    {"LEFT", "at this speed"},
                    {"REFORMS", "changes of its workers"},
                    {"LAST-DECISION", "what was decided last, and how long ago; or what is wrong"}};

const Columns kNodes{{"NODE", "a machine, or a group of its devices (`sluice up --servers`)"},
                     {"DEVICES", "that it has"},
                     {"CLUSTER", "what it is kept for; -: both use it"},
                     {"USED-BY", "what uses it now: one of inference may be on loan to training"},
                     {"INSTANCES", "of inference, on it now"},
                     {"WORKERS", "of jobs, on it now"},
                     {"STATE", "ready, or for how long it has not answered"}};
const Columns kPlans{
    {"JOB", "as commands take it"},
    {"PLAN", "by which it has devices"},
    {"STATE", "queued, running, stalled or paused"},
    {"SERVERS", "where its workers are: how many on which node"},
    {"ROUNDS", "its workers in this and the coming rounds, of a plan with a board"},
    {"ENDS-IN", "at its present speed, else by its plan; - if unknown"},
    {"LAST-DECISION", "what was decided last, and how long ago: why it waits"}};
const Columns kBoard{{"NODE", "of the cluster"},
                     {"DEVICES", "that jobs may have"},
                     {"ROUNDS", "devices held in this and the coming rounds"},
                     {"PRICE", "of a device in these, in seconds of completion time"}};

const Columns kCheckpoints{
    {"STEP", "as `sluice resume --from` takes it"},
    {"EPOCHS", "that were trained before it"},
    {"SAMPLE", "of the next epoch, with which the job goes on"},
    {"SIZE", "of the parameters and the optimizer's state"},
    {"AGE", "since it was written"},
    {"STATE", "newest: the job goes on from it; set aside: it went back"},
    {"COPY", "whether it is also in the folder of `sluice up --checkpoints`"}};

const Columns& columns(const std::string& what) {
  if (what == "nodes") return kNodes;
  if (what == "plans") return kPlans;
  if (what == "board") return kBoard;
  if (what == "checkpoints") return kCheckpoints;
  if (what == "jobs") return kJobs;
  if (what == "functions") return kFunctions;
  if (what == "revisions") return kRevisions;
  if (what == "instances") return kInstances;
  if (what == "profiles") return kProfiles;
  if (what == "groups") return kGroups;
  return what == "devices" ? kDevices : kDecisions;
}

Table table(const std::string& what) {
  std::vector<std::string> head;
  for (const Column& c : columns(what)) head.emplace_back(c.name);
  return Table(head);
}

std::string clock_time(int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm local{};
  localtime_r(&seconds, &local);
  char text[32];
  std::strftime(text, sizeof(text), "%H:%M:%S", &local);
  return text;
}

// Returns "-" for an absent latency.
std::string milliseconds(const json& ms) {
  return ms.get<double>() > 0 ? fixed(ms, 0) + "ms" : "-";
}

std::string cores_of(const json& device) {
  const int sms = device["sms"];
  if (device["kind"] == "cuda") return sms > 0 ? std::to_string(sms) + " SM" : "-";
  return fixed(device["millicores"].get<double>() / 1000, 2);
}

std::string device_memory(const json& instance) {
  if (!instance.contains("memory_held")) return "-";
  const json& limit =
      instance.contains("memory_limit") ? instance["memory_limit"] : instance["slice"]["memory"];
  return bytes(instance["memory_held"]) + " of " + bytes(limit);
}

std::string share(const json& instance, const char* key) {
  return percent(instance["slice"].value(key, 0));
}

// Returns its limit while its use was measured, of all parts together, in permille.
int limit_while_used(const json& instance) {
  const int limit = instance.value("used_limit", 0);
  return limit > 0 ? limit : instance["slice"].value("limit", 0);
}

std::string why_of(const json& instance) {
  const std::string error = instance["error"];
  if (!error.empty()) return clipped(error, kWhyWidth);
  if (instance.value("ungated_ms", 0) != 0)
    return "uses its GPU past the hook: " + fixed(instance["ungated_ms"].get<double>() / 1000, 1) +
           "s, charged";
  if (!above_limit(instance)) return "";
  return "uses " + percent(instance["used"]) + ", above its limit of " +
         percent(limit_while_used(instance));
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

// Returns the objective of a program of `sluice run`; an instance has its function's.
std::string slo_of(const json& slice) {
  const int64_t us = slice.value("slo_us", 0);
  if (us == 0) return "-";
  return us % 1000 == 0 ? std::to_string(us / 1000) + "ms" : std::to_string(us) + "us";
}

std::string why_of_decision(const json& d) {
  const std::string fault = d["fault"];
  return d["reason"]["text"].get<std::string>() + (fault.empty() ? "" : " FAILED: " + fault);
}

std::string last_decision_of(const json& function) {
  if (const std::string why = function["unavailable"]; !why.empty()) return clipped(why, kWhyWidth);
  const json& d = function["last_decision"];
  if (d.is_null()) return "-";
  const std::string rule =
      d["action"].get<std::string>() + " " + d["reason"]["rule"].get<std::string>();
  return d.value("summary", rule) + " " + age(unix_now() - d["at"].get<int64_t>());
}

std::string ready_of(const json& replicas) {
  const int ready = replicas["ready"], starting = replicas["starting"];
  const int wanted = std::max(replicas["min"].get<int>(), ready + starting);
  return std::to_string(ready) + "/" + std::to_string(wanted);
}

// Returns the age of a process that began at that tick of this machine's kernel; 0: not begun.
std::string process_age(uint64_t start_time) {
  if (start_time == 0) return "-";
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const int64_t began_ms = static_cast<int64_t>(start_time) * 1000 / sysconf(_SC_CLK_TCK);
  return age(std::max<int64_t>(0, now.tv_sec * 1000 + now.tv_nsec / 1'000'000 - began_ms));
}

std::string revisions_table(const json& list) {
  Table t = table("revisions");
  for (const json& r : list) {
    const std::string content = r.value("content", "");
    t.add({r["function"], std::to_string(r["revision"].get<int>()),
           std::to_string(r["percent"].get<int>()) + "%", milliseconds(r["slo_ms"]), r["model"],
           content.empty() ? "-" : content.substr(0, kContentDigits),
           age(unix_now() - r["created"].get<int64_t>())});
  }
  return t.text();
}

std::string instances_table(const json& list) {
  Table t = table("instances");
  for (const json& r : by_part(list)) {
    const bool gone = r["state"] == "gone";
    t.add({r["id"], r["function"], std::to_string(r["revision"].get<int>()), r["state"],
           r["device"], share(r, "sm"), share(r, "request"), share(r, "limit"), slo_of(r["slice"]),
           std::to_string(r["batch"].get<int>()), std::to_string(r["pid"].get<int64_t>()),
           fixed(r["used_ms"].get<double>() / 1000, 1), bytes(r["peak_memory"]), device_memory(r),
           std::to_string(r["ready_after_ms"].get<int64_t>()) + "ms",
           gone ? "-" : process_age(r.value("start_time", uint64_t{0})), why_of(r)});
  }
  return t.text();
}

// Returns "-" for none.
std::string positive(double value, const std::string& text) {
  return value > 0 ? text : "-";
}

// Returns "-" for a group whose programs do not count.
std::string time_of_inference(const json& ms, const json& group) {
  const bool counted = group["queue_ms"].get<double>() + group["compute_ms"].get<double>() > 0;
  return counted ? fixed(ms, 2) + "ms" : "-";
}

std::string groups_table(const json& list) {
  Table t = table("groups");
  for (const json& g : list) {
    const double body = g["body_bytes"], rate = g["service_rate"];
    t.add({std::to_string(g["revision"].get<int>()), g["type"], percent(g["sm"]),
           percent(g["quota"]), std::to_string(g["batch"].get<int>()),
           std::to_string(g["instances"].get<int>()), fixed(g["rps"], 1),
           fixed(g["inferences_per_second"], 1), fixed(g["concurrency"], 1),
           milliseconds(g["latency_ms"]), positive(body, bytes(std::llround(body))),
           positive(rate, fixed(rate, 1)), time_of_inference(g["queue_ms"], g),
           time_of_inference(g["compute_ms"], g)});
  }
  return t.text();
}

std::string devices_table(const json& list) {
  Table t = table("devices");
  for (const json& r : list)
    t.add({r["id"], r["kind"], r.value("type", "-"), cores_of(r), bytes(r["memory"]),
           percent(r["sm_quantum"]), std::to_string(r["instances"].get<int>()),
           percent(r["reserved"]), busy_of(r), fixed(r["price_per_hour"], 3),
           r["backstop"].get<bool>() ? "kernel" : "none", state_of(r)});
  return t.text();
}

std::string decisions_table(const json& list) {
  Table t = table("decisions");
  for (const json& r : list)
    t.add({clock_time(r["at"]), r["function"], r["action"], r["subject"], r["reason"]["rule"],
           why_of_decision(r)});
  return t.text();
}

// Returns the median of one request with all of a device, "-" where none has it.
std::string alone(const json& profile) {
  for (const json& p : profile["points"])
    if (p["batch"] == 1 && p["sm"] == 1000 && p["quota"] == 1000)
      return fixed(p["latency_p50_us"].get<double>() / 1000, 1) + "ms";
  return "-";
}

std::string source_of(const json& profile) {
  const double off = profile.value("estimated", 0.0);
  return off == 0 ? "measured" : "estimated, off by about " + fixed(100 * off, 0) + "%";
}

std::string profiles_table(const json& list) {
  Table t = table("profiles");
  for (const json& r : list) {
    const std::string type = r["device_type"];
    const int64_t at = r["measured_at"], memory = r["memory"];
    t.add({r["function"], r["model"], type.empty() ? "-" : type, source_of(r),
           "x" + fixed(r["live"], 2), std::to_string(r["points"].size()), alone(r),
           memory > 0 ? bytes(memory) : "-", at > 0 ? age(unix_now() - at) : "-", r["conditions"]});
  }
  return t.text();
}

}  // namespace

std::string functions_table(const json& list) {
  Table t = table("functions");
  for (const json& r : list) {
    // Requests that were all shed have a share of violations, but no latency.
    const bool asked = r["p95_ms"].get<double>() > 0 || r["violations_pct"].get<double>() > 0;
    t.add({short_name(r), ready_of(r["replicas"]), percent(r["sm"]), percent(r["request"]),
           bytes(r["memory"]), milliseconds(r["slo_ms"]), milliseconds(r["p95_ms"]),
           asked ? fixed(r["violations_pct"], 1) + "%" : "-", fixed(r["rps"], 1),
           std::to_string(r["cold_starts"].get<int64_t>()),
           r["cost_per_1k"].get<double>() > 0 ? fixed(r["cost_per_1k"], 4) : "-",
           last_decision_of(r), age(r["age_ms"])});
  }
  return t.text();
}

std::string jobs_table(const json& list) {
  Table t = table("jobs");
  for (const json& r : list) {
    const json& j = r["job"];
    const double samples = j["samples"];
    const int64_t epochs = j["epochs"];
    const int64_t epoch = std::min<int64_t>(j.value("epoch", 0) + 1, epochs);
    const std::string trouble =
        j.value(j.value("trouble", "").empty() ? "waits_for" : "trouble", "");
    const double rate = j.value("samples_per_second", 0.0), noise = j["noise"];
    t.add({short_name(r), j["state"], std::to_string(j["devices"].get<int>()),
           std::to_string(epoch) + "/" + std::to_string(epochs),
           samples > 0 ? fixed(100 * j["done"].get<double>() / samples, 1) + "%" : "-",
           j.contains("loss") ? fixed(j["loss"], 4) : "-",
           j["batch"].get<int>() > 0 ? std::to_string(j["batch"].get<int>()) : "-",
           j["learning_rate"].get<double>() > 0 ? fixed(j["learning_rate"], 4) : "-",
           rate > 0 ? fixed(rate, 0) : "-", rate > 0 ? fixed(j["goodput"], 0) : "-",
           noise > 0 ? fixed(noise, 1) : "-",
           j.contains("left_s") && j["state"] == "running"
               ? age(static_cast<int64_t>(j["left_s"].get<double>() * 1000))
               : "-",
           std::to_string(j.value("reforms", json::array()).size()),
           trouble.empty() ? last_decision_of(r) : clipped(trouble, kWhyWidth)});
  }
  return t.text();
}

namespace {

std::string nodes_table(const json& list) {
  Table t = table("nodes");
  for (const json& r : list) {
    const std::string home = r["virtual_cluster"], user = r["user"];
    t.add({r["name"], std::to_string(r["devices"].size()), home.empty() ? "-" : home,
           home.empty()   ? "all"
           : user == home ? user
                          : user + ", on loan",
           std::to_string(r["instances"].get<int>()), std::to_string(r["workers"].get<int>()),
           r["reachable"].get<bool>() ? "ready" : "silent for " + age(r["stale_ms"])});
  }
  return t.text();
}

// Returns "2 2 2 0 …": of the first rounds.
template <class Format>
std::string rounds(const json& list, Format format) {
  constexpr size_t kShown = 8;
  std::string out;
  for (size_t r = 0; r < std::min(list.size(), kShown); ++r)
    out += (out.empty() ? "" : " ") + format(list[r]);
  return out + (list.size() > kShown ? " …" : "");
}

std::string plans_table(const json& plans) {
  const auto whole = [](const json& n) { return std::to_string(n.get<int>()); };
  Table jobs = table("plans");
  for (const json& r : plans["jobs"]) {
    std::string servers;
    for (const auto& [node, workers] : r["servers"].items())
      servers += (servers.empty() ? "" : ", ") + whole(workers) + " on " + node;
    jobs.add(
        {short_name(r), r["plan"], r["state"], servers.empty() ? "-" : servers,
         r.contains("rounds") ? rounds(r["rounds"], whole) : "-",
         r.contains("left_s") ? age(static_cast<int64_t>(r["left_s"].get<double>() * 1000)) : "-",
         last_decision_of(r)});
  }
  std::string out = jobs.text();
  for (const json& board : plans["boards"]) {
    Table t = table("board");
    for (const json& n : board["nodes"])
      t.add({n["node"], whole(n["devices"]), rounds(n["held"], whole),
             rounds(n["prices"], [](const json& p) { return fixed(p.get<double>(), 0); })});
    out += "\nThe board, in rounds of " + fixed(board["round_s"].get<double>(), 0) + " s:\n" +
           t.text();
  }
  return out;
}

std::string checkpoints_table(const json& list) {
  Table t = table("checkpoints");
  const json& all = list["checkpoints"];
  const auto newest = std::find_if(all.rbegin(), all.rend(),
                                   [](const json& c) { return !c["set_aside"].get<bool>(); });
  for (const json& c : all) {
    const bool aside = c["set_aside"], is_newest = newest != all.rend() && &c == &*newest;
    t.add({std::to_string(c["step"].get<int64_t>()), std::to_string(c["epoch"].get<int64_t>()),
           std::to_string(c["sample"].get<int64_t>()), bytes(c["bytes"].get<int64_t>()),
           age(unix_now() - c["saved"].get<int64_t>()),
           aside       ? "set aside"
           : is_newest ? "newest"
                       : "-",
           c["copied"].get<bool>() ? "yes" : "-"});
  }
  const std::string trouble = list["trouble"];
  return t.text() + (trouble.empty() ? "" : "\nno copy: " + trouble + "\n");
}

}  // namespace

std::string listing(const std::string& what, const json& list) {
  if (what == "nodes") return nodes_table(list);
  if (what == "plans") return plans_table(list);
  if (what == "checkpoints") return checkpoints_table(list);
  if (what == "jobs") return jobs_table(list);
  if (what == "functions") return functions_table(list);
  if (what == "revisions") return revisions_table(list);
  if (what == "instances") return instances_table(list);
  if (what == "profiles") return profiles_table(list);
  if (what == "groups") return groups_table(list);
  return what == "devices" ? devices_table(list) : decisions_table(list);
}

std::string legend(const std::string& what) {
  std::string out;
  for (const Column& c : columns(what)) {
    const std::string name = c.name;
    out += "  " + name + std::string(name.size() < 15 ? 15 - name.size() : 1, ' ') + c.meaning;
    out.erase(out.find_last_not_of(' ') + 1);
    out += "\n";
  }
  return out;
}

std::string decision_line(const json& d) {
  const std::string function = d["function"];
  return clock_time(d["at"]) + "  " + (function.empty() ? "" : function + "  ") +
         d["action"].get<std::string>() + " " + d["subject"].get<std::string>() + ": " +
         printable(why_of_decision(d), SIZE_MAX);
}

std::string short_name(const json& function) {
  const std::string space = function["namespace"];
  return (space == "default" ? "" : space + "/") + function["name"].get<std::string>();
}

json by_part(const json& instances) {
  json rows = json::array();
  for (const json& i : instances) {
    const json parts = i.value("parts", json::array());
    if (parts.empty()) rows.push_back(i);  // from before parts existed
    for (const json& part : parts) {
      json row = i;
      row.update(part);
      row["parts"] = json::array({part});
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

bool above_limit(const json& i) {
  if (!i.value("foreign", false) || i["state"] == "gone") return false;
  return i.value("used", 0) * 10 > limit_while_used(i) * 11;
}

}  // namespace sluice::cli
