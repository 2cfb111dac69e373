#include "tests/support/siege_training.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>

#include "base/random.h"
#include "tests/support/gateway_bed.h"
#include "train/samples.h"

namespace sluice::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using wire::http::verb;

// Returns the object under the key, or an empty one.
json part_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? *found : json::object();
}

constexpr uint32_t kSamples = 1000;
// A use in epoch e counts 0.9^e, by the script's scheduler.
constexpr uint32_t kSamplesOfScript = 1003;
constexpr double kScriptsDecay = 0.9;
constexpr int kBatch = 10;
constexpr Nanos kSilent = Seconds(60);
constexpr Nanos kPoll = Millis(20);
constexpr double kFailed = 5000;  // ms, for an answer of the API that failed

enum class Event {
  kKillWorker,
  kKillWorkers,  // all of a job
  kHoldWorker,   // stopped, and continued soon
  kStopWorker,   // and left so
  kDamage,       // of the newest checkpoint; then all workers are killed
  kPauseJob,     // by its user, for a moment: its workers leave with a checkpoint
  kKillControl,
  kHoldControl,
  kKillNode,
  kHoldNode,
};
// Their names, and how often each is drawn.
constexpr std::pair<const char*, int> kEvents[] = {
    {"worker killed", 8},  {"all workers killed", 2}, {"worker held", 4},
    {"worker stopped", 1}, {"checkpoint damaged", 3}, {"job paused and resumed", 3},
    {"control killed", 3}, {"control held", 1},       {"node killed", 3},
    {"node held", 1}};

// A job of sluice-trainer, or of a script. Each use of a sample moves its parameter.
struct Sieged {
  std::string kind, name;
  json seen = json::object();       // the job in the last listing
  Time changed{};                   // when it last differed from the one before
  pid_t stopped = 0;                // a worker that is left stopped
  fs::path damaged;                 // its checkpoint that was damaged last
  std::optional<int64_t> attacked;  // its step at the last event; nullopt: it has gone on since
};

class TrainingAttacker {
 public:
  explicit TrainingAttacker(const TrainingSiege& with)
      : with_(with), random_(with.seed), bed_(with.platform) {}

  Result<TrainingSieged> run() {
    SLUICE_TRY(bed_.ready());
    for (const char* kind : {"ledger", "script"})
      SLUICE_TRY(begin(jobs_.emplace_back(Sieged{kind})));
    if (!with_.hostile.empty()) SLUICE_TRY(bear_hostile_users());
    while (result_.events < with_.events) {
      SLUICE_TRY(poll_for(Millis(random_.between(100, 700))));
      attack();
      if (with_.waits) SLUICE_TRY(poll_until_all_go_on());
    }
    while (!std::ranges::all_of(jobs_, [](const Sieged& j) { return j.name.empty(); }))
      SLUICE_TRY(poll());
    check_scripts();
    note_events();
    for (const auto& [pid, until] : held_) ::kill(pid, SIGCONT);
    result_.leftovers = static_cast<int>(bed_.end().size());
    return std::move(result_);
  }

 private:
  // ---- jobs ------------------------------------------------------------------------------------

  Result<void> begin(Sieged& job) {
    job = {.kind = job.kind, .name = job.kind + "-" + std::to_string(++begun_)};
    job.changed = clock_.now();
    const std::string what =
        job.kind == "script"
            ? "command: [/usr/bin/python3, " + with_.script + "], elastic: true"
            : "model: {path: " + with_.demonstrations +
                  "/ledger.pt}, dataset: " + with_.demonstrations + "/ledger, learningRate: 10";
    const std::string file =
        "apiVersion: sluice.dev/v1alpha1\nkind: TrainingFunction\nmetadata: {name: " + job.name +
        "}\nspec: {" + what + ", length: " + std::to_string(with_.epochs) +
        ", batchSize: {least: 10, most: 10}, mostDevices: 2, policy: {name: has-gpu, settings: "
        "{calm: 1h}}}\n";
    return in_time("apply " + job.name, [&] { return bed_.apply(file); });
  }

  Result<void> ask(const std::string& job, const std::string& word) {
    return bed_.call(verb::post, "/v1/functions/default/" + job + "/" + word);
  }
  // Asks again while the control process is away.
  Result<void> in_time(const std::string& what, const std::function<Result<void>()>& ask) {
    for (const Time give_up = clock_.now() + kSilent;; ::usleep(100'000)) {
      Result<void> outcome = ask();
      if (outcome.ok()) return outcome;
      if (clock_.now() > give_up) return within(what, outcome.error());
    }
  }
  bool is_there(const Sieged& job) {
    const auto all = bed_.get("/v1/functions");
    return !all.ok() ||
           std::ranges::any_of(*all, [&](const json& f) { return f["name"] == job.name; });
  }

  Result<void> poll_for(Nanos time) {
    const Time end = clock_.now() + time;
    while (clock_.now() < end) SLUICE_TRY(poll());
    return {};
  }

  // A job goes on once it has taken a step beyond that of the attack, or has ended. One with a
  // stopped worker is not waited for: others are attacked meanwhile.
  Result<void> poll_until_all_go_on() {
    const auto waits = [&](const Sieged& j) {
      return !j.name.empty() && j.attacked && (j.stopped == 0 || ::kill(j.stopped, 0) != 0);
    };
    const Time give_up = clock_.now() + kSilent;
    while (std::ranges::any_of(jobs_, waits) && clock_.now() < give_up) SLUICE_TRY(poll());
    return {};
  }

  Result<void> poll() {
    bed_.reap();
    ::usleep(static_cast<unsigned>(kPoll / std::chrono::microseconds(1)));
    std::erase_if(held_, [&](const auto& p) {
      return clock_.now() >= p.second && (::kill(p.first, SIGCONT), true);
    });
    std::erase_if(resume_, [&](const std::string& name) {
      const auto job = std::ranges::find(jobs_, name, &Sieged::name);
      const bool over = job == jobs_.end() || job->seen.value("state", "") == "paused";
      return over && (job == jobs_.end() || ask(name, "resume").ok());
    });
    for (Sieged& job : jobs_) {
      if (job.name.empty()) continue;
      const auto f = bed_.get("/v1/functions/default/" + job.name);
      const Time now = clock_.now();
      if (f.ok() && f->contains("job") && (*f)["job"] != job.seen) {
        job.seen = part_of(*f, "job");
        job.changed = now;
      }
      const double silence = seconds(now - job.changed);
      if (silence > result_.longest_silence) {
        result_.longest_silence = silence;
        longest_ = job.name + " after " + last_ + ": " + job.seen.value("state", "unknown");
      }
      if (job.attacked && job.seen.value("step", int64_t{0}) != *job.attacked) job.attacked.reset();
      SLUICE_TRY(settle(job));
    }
    return {};
  }

  // Takes what has ended, and begins the next one.
  Result<void> settle(Sieged& job) {
    const std::string state = job.seen.value("state", "");
    const bool by_user = state == "paused" && job.seen.value("trouble", "").empty();
    if (by_user && std::ranges::count(resume_, job.name) > 0) return {};
    if (state == "running" || state == "queued" || state == "stalled" || state.empty()) return {};
    job.attacked.reset();
    if (state == "paused" && !by_user) {
      if (++result_.paused > 10 + 4 * with_.events)
        return within(job.name + " pauses again and again",
                      Error{ErrorKind::kInternal, job.seen["trouble"]});
      ++troubles_[job.seen["trouble"]];
      job.changed = clock_.now();
      job.seen = json::object();
      return in_time("resume " + job.name, [&] { return ask(job.name, "resume"); });
    }
    if (state == "finished") {
      ++result_.finished;
      check(job);
    } else {
      ++result_.failed;
      ++troubles_[state + ": " + job.seen.value("trouble", "")];
    }
    SLUICE_TRY(in_time("delete " + job.name, [&] {
      const auto outcome = bed_.call(verb::delete_, "/v1/functions/default/" + job.name);
      return is_there(job) ? outcome : Result<void>();  // it was, though its answer was lost
    }));
    job.name.clear();
    return hostile_ || result_.events < with_.events ? begin(job) : Result<void>();
  }

  void check(const Sieged& job) {
    const bool script = job.kind == "script";
    if (job.seen["done"] != with_.epochs * int64_t{script ? kSamplesOfScript : kSamples})
      return wrong(job, "not all is done");
    if (script) {  // read at the end, all by one interpreter
      std::error_code fault;
      const std::string kept = fs::temp_directory_path() / ("sluice-siege-" + job.name + ".pt");
      fs::copy_file(job.seen.value("model", ""), kept, fs::copy_options::overwrite_existing, fault);
      if (fault) return wrong(job, "its model: " + fault.message());
      models_.push_back(kept);
      return;
    }
    const fs::path last = part_of(job.seen, "checkpoint").value("path", "");
    if (last == job.damaged) return;  // after its end, which was not seen yet
    std::vector<float> found(kSamples);
    std::ifstream in(last / "state", std::ios::binary);
    if (!in.read(reinterpret_cast<char*>(found.data()), kSamples * sizeof(float)))
      return wrong(job, "its last checkpoint cannot be read");
    const std::vector<double> right = undisturbed();
    for (size_t i = 0; i < kSamples; ++i)
      if (!(std::abs(found[i] - right[i]) < 0.05))
        return wrong(job, "sample " + std::to_string(i) + " has " + std::to_string(found[i]) +
                              ", not " + std::to_string(right[i]));
  }
  void wrong(const Sieged& job, const std::string& why) {
    ++result_.wrong;
    result_.notes.push_back(job.name + " after " + last_ + ": " + why);
  }

  // The parameters after all epochs in their order, with the trainer's momentum.
  std::vector<double> undisturbed() const {
    constexpr double kMomentum = 0.9;
    std::vector<double> parameters(kSamples), momentum(kSamples);
    for (int epoch = 0; epoch < with_.epochs; ++epoch) {
      const std::vector<uint32_t> order = train::epoch_order(1, epoch, kSamples);
      for (size_t begin = 0; begin < kSamples; begin += kBatch) {
        for (double& m : momentum) m *= kMomentum;
        for (size_t i = begin; i < begin + kBatch; ++i) momentum[order[i]] += 1;
        for (size_t i = 0; i < kSamples; ++i) parameters[i] -= momentum[i];
      }
    }
    return parameters;
  }

  void check_scripts() {
    if (models_.empty()) return;
    std::string program =
        "import sys, torch\n"
        "wrong = [m for m in sys.argv[1:] if "
        "not (torch.jit.load(m).used + " +
        std::to_string((1 - std::pow(kScriptsDecay, with_.epochs)) / (1 - kScriptsDecay)) +
        ").abs().max() < 1e-3]\n"
        "print(*wrong, file=sys.stderr)\n"
        "sys.exit(min(len(wrong), 100))\n";
    const std::string file =
        fs::temp_directory_path() / ("sluice-siege-" + std::to_string(getpid()));
    std::ofstream(file) << program;
    std::string command = "/usr/bin/python3 " + file;
    for (const std::string& m : models_) command += " " + m;
    const int status = std::system(command.c_str());
    result_.wrong += WIFEXITED(status) ? WEXITSTATUS(status) : static_cast<int>(models_.size());
    for (const std::string& m : models_) fs::remove(m);
    fs::remove(file);
  }

  // ---- hostile users ---------------------------------------------------------------------------

  Result<void> bear_hostile_users() {
    hostile_ = true;
    const pid_t control = bed_.pid_of("control");
    SLUICE_ASSIGN(none, bear(true, result_.api_busy_ms));
    if (!none.taken.empty()) return Error{ErrorKind::kInternal, "busy users took something"};
    result_.control_busy_mib = peak_rss_mib(control);
    SLUICE_ASSIGN(hostilities, bear(false, result_.api_ms));
    result_.hostilities = std::move(hostilities);
    result_.control_mib = peak_rss_mib(control);
    hostile_ = false;
    if (bed_.pid_of("control") != control)
      result_.hostilities.taken.push_back("the control process, which has ended");
    return {};
  }

  // Asks the API ten times a second, meanwhile, as its owner does.
  Result<Hostilities> bear(bool busy, std::vector<double>& api_ms) {
    SLUICE_ASSIGN(users,
                  HostileUsers::start(bed_, with_.hostile, busy, with_.hostile_lasts, with_.seed));
    const Time give_up = clock_.now() + with_.hostile_lasts + kSilent;
    for (Time told{}; !users.ended();) {
      const Time begin = clock_.now();
      if (begin > give_up) return Error{ErrorKind::kTimeout, "the hostile programs do not end"};
      if (begin - told > Seconds(1)) {
        SLUICE_TRY(users.tell_paths());
        told = begin;
      }
      const auto all = bed_.get("/v1/functions");
      api_ms.push_back(all.ok() ? seconds(clock_.now() - begin) * 1000 : kFailed);
      SLUICE_TRY(poll_for(Millis(100)));
    }
    SLUICE_TRY(bed_.call(verb::delete_,
                         std::string("/v1/functions/default/") + (busy ? "busy" : "hostile")));
    return users.told();
  }

  // ---- events ----------------------------------------------------------------------------------

  std::vector<pid_t> workers_of(const Sieged& job) {
    std::vector<pid_t> pids;
    const auto all = bed_.get("/v1/instances");
    if (all.ok())
      for (const json& i : *all)
        if (i["function"] == "default/" + job.name && i["state"] == "ready" &&
            i.value("pid", 0) > 0)
          pids.push_back(i["pid"]);
    return pids;
  }

  Event draw() {
    int sum = 0;
    for (const auto& [name, weight] : kEvents) sum += weight;
    auto drawn = static_cast<int>(random_.below(static_cast<uint64_t>(sum)));
    size_t e = 0;
    while (drawn >= kEvents[e].second) drawn -= kEvents[e++].second;
    return static_cast<Event>(e);
  }

  void attack() {
    const Event event = draw();
    Sieged& job = jobs_[random_.below(jobs_.size())];
    if (!carry_out(event, job)) return;
    ++result_.events;
    last_ = kEvents[static_cast<size_t>(event)].first;
    ++counts_[last_];
    const bool of_job = event <= Event::kPauseJob;
    for (Sieged& j : jobs_)
      if (!of_job || &j == &job) j.attacked = j.seen.value("step", int64_t{0});
  }

  // Returns false where there is nothing to attack.
  bool carry_out(Event event, Sieged& job) {
    const pid_t control = bed_.pid_of("control"), node = bed_.pid_of("node");
    switch (event) {
      case Event::kKillControl:
        return control > 0 && ::kill(control, SIGKILL) == 0;
      case Event::kHoldControl:
        return control > 0 && hold(control);
      case Event::kKillNode:
        return node > 0 && ::kill(node, SIGKILL) == 0;
      case Event::kHoldNode:
        return node > 0 && hold(node);
      default:
        break;
    }
    const std::vector<pid_t> workers = workers_of(job);
    if (workers.empty()) return false;
    if (event == Event::kPauseJob) {
      resume_.push_back(job.name);
      return ask(job.name, "pause").ok();
    }
    const pid_t one = workers[random_.below(workers.size())];
    if (event == Event::kKillWorker) return ::kill(one, SIGKILL) == 0;
    if (event == Event::kHoldWorker) return hold(one);
    if (event == Event::kStopWorker) {
      if (!with_.leave_stopped || (job.stopped > 0 && ::kill(job.stopped, 0) == 0)) return false;
      job.stopped = one;
      return ::kill(one, SIGSTOP) == 0;
    }
    if (event == Event::kDamage && !damage(job)) return false;
    for (const pid_t pid : workers) ::kill(pid, SIGKILL);
    return true;
  }

  bool hold(pid_t pid) {
    if (std::ranges::any_of(jobs_, [&](const Sieged& j) { return j.stopped == pid; })) return false;
    if (::kill(pid, SIGSTOP) != 0) return false;
    held_.emplace_back(pid, clock_.now() + Millis(random_.between(100, 3000)));
    return true;
  }

  // Of a job with an older checkpoint, from which it can go on.
  bool damage(Sieged& job) {
    const fs::path newest = part_of(job.seen, "checkpoint").value("path", "");
    std::error_code fault;
    int others = 0;
    for (const auto& entry : fs::directory_iterator(newest.parent_path(), fault))
      others += entry.path().filename().string().starts_with("checkpoint-");
    if (newest.empty() || others < 2) return false;
    const fs::path state = newest / "state", manifest = newest / "manifest";
    switch (random_.below(4)) {
      case 0:
        fs::resize_file(state, fs::file_size(state, fault) / 2, fault);
        break;
      case 1: {
        std::fstream file(state, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(100);
        file.put('\x5A').put('\x5B').put('\x5C');
        break;
      }
      case 2:
        std::ofstream(manifest) << "{\"version\": 1, \"step\": 9e99";
        break;
      default:
        fs::remove(manifest, fault);
    }
    job.damaged = newest;
    return !fault;
  }

  void note_events() {
    std::string all;
    for (const auto& [name, n] : counts_)
      all += (all.empty() ? "" : ", ") + std::to_string(n) + " " + name;
    result_.notes.push_back("events: " + all);
    result_.notes.push_back("longest silence: " + std::to_string(result_.longest_silence) +
                            " s, of " + longest_);
    for (const auto& [why, n] : troubles_)
      result_.notes.push_back(std::to_string(n) + " × " + why.substr(0, 300));
  }

  const TrainingSiege& with_;
  Random random_;
  const SteadyClock clock_;
  PlatformBed bed_;
  std::vector<Sieged> jobs_;
  int begun_ = 0;
  bool hostile_ = false;                      // jobs are begun anew, though there are no events
  std::vector<std::pair<pid_t, Time>> held_;  // and when each is continued
  std::vector<std::string> resume_;           // jobs that are to go on once they are paused
  std::vector<std::string> models_;           // of finished scripts
  std::map<std::string, int> counts_, troubles_;
  std::string last_ = "the start", longest_;
  TrainingSieged result_;
};

}  // namespace

Result<TrainingSieged> besiege_training(const TrainingSiege& with) {
  return TrainingAttacker(with).run();
}

}  // namespace sluice::bench
