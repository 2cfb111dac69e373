#include <signal.h>

#include <functional>
#include <map>
#include <set>
#include <thread>

#include "base/random.h"
#include "tests/support/siege.h"

namespace sluice::bench {
namespace {

using nlohmann::json;

const std::vector<std::string> kFunctions = {"f", "g"};
constexpr int kReplicas = 2;
constexpr size_t kSlowest = 5;  // recoveries that are reported
constexpr int kExecEvery = 25;  // events between two measurements of the reference
// A client notices a broken connection, and the killer the time, a little late.
constexpr Nanos kSlack = Millis(20);

std::string infer_path(const std::string& function) {
  return "/v2/models/" + function + "/infer";
}

enum class Kind { kInstance, kGateway, kControl, kNode, kZygote, kTemplate };
constexpr int kKinds = 6;
constexpr const char* kNames[kKinds] = {"instance", "gateway", "control",
                                        "node",     "zygote",  "template"};

struct Kill {
  Time at;
  Kind kind;
};

// The platform's running processes; the next victims are among them.
using Running = std::map<Kind, std::vector<pid_t>>;

class Killer {
 public:
  explicit Killer(const Kills& with) : with_(with), random_(with.seed), bed_(with.platform) {}

  Result<Killed> run() {
    SLUICE_TRY(bed_.ready());
    for (const std::string& f : kFunctions) SLUICE_TRY(bed_.deploy(f, kReplicas));
    ask_ = questions(16, with_.seed);
    if (!with_.platform.model.empty()) SLUICE_TRY(learn_answers());
    if (!whole()) return Error{ErrorKind::kInternal, "the platform is not whole before a kill"};
    std::vector<Asked> asked;
    std::atomic<bool> stop = false;
    std::thread load([&] { asked = play(load_until(stop)); });
    const Result<void> outcome = kill_all();
    stop = true;
    load.join();
    SLUICE_TRY(outcome);
    judge(asked);
    result_.leftovers = static_cast<int>(bed_.end().size());
    return std::move(result_);
  }

 private:
  OpenLoad load_until(std::atomic<bool>& stop) const {
    OpenLoad load{.port = bed_.gateway_port(),
                  .ask = ask_,
                  .plan = {{std::chrono::hours(24), with_.rate}},
                  .seed = with_.seed,
                  .stop = &stop};
    for (const std::string& f : kFunctions) load.paths.push_back(infer_path(f));
    return load;
  }

  Result<std::string> ask(const std::string& function, const Question& question) const {
    wire::HttpClient client({.host = "127.0.0.1", .port = bed_.gateway_port()}, Seconds(2));
    SLUICE_ASSIGN(answer, client.call(wire::http::verb::post, infer_path(function), question.body));
    if (answer.result_int() != 200) return Error{ErrorKind::kUnavailable, answer.body()};
    return answer.body();
  }

  // A real model's right answers are the outputs of an undisturbed platform.
  Result<void> learn_answers() {
    for (Question& q : ask_) {
      SLUICE_ASSIGN(answer, ask(kFunctions[0], q));
      const size_t at = answer.find("\"data\":");
      if (at == std::string::npos) return Error{ErrorKind::kInternal, "no outputs: " + answer};
      q.right = answer.substr(at, answer.find(']', at) - at);
    }
    return {};
  }

  // Every process runs, every function has its replicas and answers. Fills `running_`.
  bool whole() {
    bed_.reap();
    Running now;
    for (const auto& [name, kind] : {std::pair{"node", Kind::kNode},
                                     {"control", Kind::kControl},
                                     {"gateway", Kind::kGateway}}) {
      const pid_t pid = bed_.pid_of(name);
      if (pid <= 0 || dead_.contains(pid)) return missing(std::string("no ") + name);
      now[kind] = {pid};
    }
    const auto instances = bed_.get("/v1/instances");
    if (!instances.ok()) return missing(instances.error().message);
    std::map<std::string, int> ready;
    for (const json& i : *instances) {
      const pid_t pid = i.value("pid", 0);
      if (pid <= 0 || i.value("state", "") != "ready" || dead_.contains(pid) || ::kill(pid, 0) != 0)
        continue;
      ++ready[i.value("function", "")];
      now[Kind::kInstance].push_back(pid);
    }
    for (const std::string& f : kFunctions) {
      if (ready["default/" + f] != kReplicas)
        return missing(f + " has " + std::to_string(ready["default/" + f]) + " instances");
      const auto answer = ask(f, ask_[0]);
      if (!answer.ok()) return missing(f + ": " + answer.error().message);
      if (answer->find(ask_[0].right) == answer->npos) return missing(f + " answers " + *answer);
    }
    find_templates(now);
    running_ = std::move(now);
    return true;
  }
  bool missing(std::string what) {
    missing_ = std::move(what);
    return false;
  }

  // The daemon's child is the zygote; its children are templates, and their children are instances.
  void find_templates(Running& now) const {
    for (const pid_t zygote : children_of(now[Kind::kNode][0])) {
      now[Kind::kZygote].push_back(zygote);
      for (const pid_t child : children_of(zygote)) now[Kind::kTemplate].push_back(child);
    }
  }

  Result<void> kill_all() {
    for (int event = 0; result_.killed < with_.kills; ++event) {
      if (event % kExecEvery == 0) {
        SLUICE_ASSIGN(took, bed_.plain_exec(kFunctions[0], ask_[0]));
        result_.exec_ms.push_back(millis(took));
      }
      ::usleep(static_cast<unsigned>(random_.between(50'000, 250'000)));
      if (!whole()) return Error{ErrorKind::kInternal, "not whole before a kill: " + missing_};
      kill_some(random_.below(3) == 0 ? 2 : 1);
    }
    return {};
  }

  void kill_some(int victims) {
    const bool warm = running_[Kind::kTemplate].size() >= kFunctions.size();
    const SteadyClock clock;
    const Time begin = clock.now();
    bool cold = false, instance = false;
    for (int v = 0; v < victims; ++v) {
      if (v > 0) ::usleep(static_cast<unsigned>(random_.below(50'000)));
      const Kind kind = kill_one();
      instance = instance || kind == Kind::kInstance;
      cold = cold || kind == Kind::kNode || kind == Kind::kZygote || kind == Kind::kTemplate;
    }
    const bool starts_cold = instance && (cold || !warm);
    missing_ = "nothing missing";
    while (!whole()) {
      if (clock.now() - begin > with_.patience) return note_never_whole(victims);
      ::usleep(10'000);
    }
    const double ms = millis(clock.now() - begin);
    (starts_cold ? result_.whole_cold_ms : result_.whole_ms).push_back(ms);
    slowest_.emplace(ms, last_kills(victims) + ", last " + missing_);
  }

  // Without such a process, an instance is killed.
  Kind kill_one() {
    const auto drawn = static_cast<Kind>(random_.below(kKinds));
    const Kind kind = running_[drawn].empty() ? Kind::kInstance : drawn;
    std::vector<pid_t>& pids = running_[kind];
    const size_t which = random_.below(pids.size());
    const pid_t pid = pids[which];
    pids.erase(pids.begin() + static_cast<ptrdiff_t>(which));
    const SteadyClock clock;
    killed_.push_back({clock.now(), kind});
    dead_.insert(pid);
    ::kill(pid, SIGKILL);
    ++result_.killed;
    return kind;
  }

  void note_never_whole(int victims) {
    ++result_.never_whole;
    slowest_.emplace(millis(with_.patience), last_kills(victims) + ", never whole: " + missing_);
  }
  std::string last_kills(int victims) const {
    std::string names;
    for (size_t i = killed_.size() - static_cast<size_t>(victims); i < killed_.size(); ++i)
      names +=
          (names.empty() ? "" : " and ") + std::string(kNames[static_cast<int>(killed_[i].kind)]);
    return names;
  }

  // A request open when a gateway died is lost with it. An instance's death loses one, which it has
  // in hand.
  void judge(const std::vector<Asked>& asked) {
    result_.tally = tally(asked);
    std::map<std::string, int> kinds;
    for (const Kill& k : killed_) ++kinds[kNames[static_cast<int>(k.kind)]];
    std::string all;
    for (const auto& [name, n] : kinds) all += " " + std::to_string(n) + " " + name;
    result_.notes.push_back("of each kind:" + all);
    for (const auto& [ms, what] : slowest_)
      if (result_.notes.size() <= kSlowest)
        result_.notes.push_back(std::to_string(static_cast<int>(ms)) + " ms after " + what);
    std::vector<bool> spent(killed_.size(), false);
    for (const Asked& a : asked) {
      if (a.right) continue;
      bool in_flight = false;
      for (size_t k = 0; k < killed_.size() && !in_flight; ++k) {
        if (killed_[k].at + kSlack < a.intended || killed_[k].at > a.ended) continue;
        in_flight =
            killed_[k].kind == Kind::kGateway || (killed_[k].kind == Kind::kInstance && !spent[k]);
        if (in_flight && killed_[k].kind == Kind::kInstance) spent[k] = true;
      }
      ++(in_flight ? result_.lost_in_flight : result_.lost_beyond);
    }
  }

  const Kills& with_;
  Random random_;
  PlatformBed bed_;
  std::vector<Question> ask_;
  Running running_;
  std::set<pid_t> dead_;
  std::vector<Kill> killed_;
  std::string missing_;                                         // missing at the last check
  std::multimap<double, std::string, std::greater<>> slowest_;  // by milliseconds
  Killed result_;
};

}  // namespace

Result<Killed> kill_at_random(const Kills& with) {
  return Killer(with).run();
}

}  // namespace sluice::bench
