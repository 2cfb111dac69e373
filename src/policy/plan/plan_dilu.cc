#include "policy/plan/plan_dilu.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "policy/explain.h"
#include "policy/place/place.h"
#include "policy/plan/jobs.h"

namespace sluice::policy {
namespace {

// Keys of the memory begin with it.
constexpr std::string_view kSearch = "dilu ", kNeeded = "needed ";
// Seconds from a resize until reports count: by then its nodes have carried it out.
constexpr double kSettles = 0.5;
// The limit of a worker that is not measured, beside others: with γ = 1.5 one of them may have the
// whole as its limit.
constexpr Share kBeside{500};
constexpr double kYields = 60;  // seconds that inference keeps what it needed

// What is known of a job's share, and its present trial, as the memory has it. Shares are in
// permille, times in seconds of the loop's clock. 0: not found, or not yet.
struct ShareSearch {
  enum Stage { kMeasuresWhole, kSearchesRequest, kSearchesLimit, kFound };

  double revision = 0, workers = 0, batch = 0;
  Stage stage = kMeasuresWhole;
  double whole = 0, last = 0;              // T1, and T of the last trial
  double low = 0, high = kWhole.permille;  // of the present search; once found, high is the limit
  double request = 0;
  double begun = 0;           // the present trial
  double from = 0, done = 0;  // its first report, and the samples by then

  static constexpr size_t kNumbers = 12;
  static ShareSearch of(const std::vector<double>& n) {
    return {n[0], n[1],  n[2], static_cast<Stage>(n[3]), n[4], n[5], n[6], n[7], n[8],
            n[9], n[10], n[11]};
  }
  std::vector<double> numbers() const {
    const auto at = static_cast<double>(stage);
    return {revision, workers, batch, at, whole, last, low, high, request, begun, from, done};
  }

  bool searches() const { return stage < kFound; }
  Share tried() const {
    return stage == kMeasuresWhole ? kWhole : Share{static_cast<int>((low + high) / 2)};
  }
  Quota quota() const {
    if (searches()) return {tried(), tried()};
    return {share(request), share(high)};
  }
  void begin_trial(double now) { begun = now, from = 0; }
  // Takes in the samples per second of the share that was tried.
  void take(double throughput, const DiluPlanSettings& settings);
  // Says why the workers have the quota that the search has come to.
  Reason reason(const DiluPlanSettings& settings) const;

  static Share share(double permille) { return {static_cast<int>(permille)}; }
};

void ShareSearch::take(double throughput, const DiluPlanSettings& s) {
  const double off = s.tolerance.fraction(), goal = s.keeps.fraction() * whole;
  const auto narrow = [&](bool suffices) { (suffices ? high : low) = tried().permille; };
  last = throughput;
  if (stage == kMeasuresWhole) {
    whole = throughput;
    stage = kSearchesRequest;
  } else if (stage == kSearchesLimit) {
    narrow(throughput >= (1 - off) * whole);
  } else if (std::abs(throughput - goal) <= off * goal) {
    request = tried().permille;
  } else {
    narrow(throughput >= goal);
    if (high - low < s.tolerance.permille) request = high;
  }
  if (stage == kSearchesRequest && request > 0) {
    stage = kSearchesLimit;
    low = request, high = kWhole.permille;
  }
  if (stage == kSearchesLimit && high - low < s.tolerance.permille) stage = kFound;
}

Reason ShareSearch::reason(const DiluPlanSettings& s) const {
  if (stage == kMeasuresWhole)
    return {"job-trial", "Its throughput with all of a device's time is measured first.", {}};
  const std::string all = per_second(whole) + " that it does with all of a device's time";
  const std::string kept = percent(s.keeps), almost = percent(kWhole - s.tolerance);
  if (stage == kFound)
    return {"job-measured",
            "Its request of " + percent(share(request)) + " keeps " + kept + " of the " + all +
                ", its limit of " + percent(share(high)) + " keeps " + almost + ".",
            {{"throughput", whole}, {"request", request / 1000}, {"limit", high / 1000}}};
  return {"job-trial",
          "To keep " + (stage == kSearchesRequest ? kept : almost) + " of the " + all + ", " +
              percent(share(low)) + " is too little and " + percent(share(high)) +
              " suffices: " + percent(tried()) + " is tried.",
          {{"throughput", whole},
           {"last", last},
           {"low", low / 1000},
           {"high", high / 1000},
           {"tried", tried().fraction()}}};
}

class DiluPlan {
 public:
  explicit DiluPlan(Input& input)
      : input_(input),
        jobs_(jobs_of(input)),
        sites_(sites_of(input, jobs_)),
        layouts_(input.snapshot.devices, *find_placement("complementary"), input.arbiter,
                 [&input](size_t device, Layout& layout) { lay_out(input, device, layout); }) {
    std::erase_if(input.memory.numbers, [&](const auto& entry) {
      return entry.first.starts_with(kSearch) &&
             !input.index.function(function_name(entry.first.substr(kSearch.size())));
    });
    note_needs();
  }

  std::vector<Action> decide() {
    stop_unwanted(jobs_, input_.snapshot, actions_);
    std::vector<std::pair<const Job*, int>> lacking;  // with the workers that they lack
    for (const Job& job : jobs_) {
      if (!job.wants_workers()) continue;
      ShareSearch search = recall(job);
      const int staying = stop_on_cordoned(job, sites_, actions_) - stop_surplus(job);
      if (search.searches()) advance(job, search);
      resize(job, search);
      input_.memory.numbers[key(job)] = search.numbers();
      if (staying < job.asked_for()) lacking.emplace_back(&job, job.asked_for() - staying);
    }
    std::ranges::stable_sort(lacking, {}, [](const auto& l) { return l.first->workers.empty(); });
    for (const auto& [job, missing] : lacking) start(*job, missing);
    return std::move(actions_);
  }

 private:
  static void lay_out(const Input& input, size_t device, Layout& layout) {
    for (const uint32_t k : input.index.on_device(static_cast<uint32_t>(device))) {
      const auto f = input.index.function_of(k);
      layout.add(
          room_of(input.snapshot.instances[k], false, f ? &input.snapshot.functions[*f] : nullptr));
    }
  }
  static const DiluPlanSettings& settings(const Job& job) {
    return job.settings->as<DiluPlanSettings>();
  }
  static std::string key(const Job& job) { return std::string(kSearch) + to_string(job.name()); }

  ShareSearch recall(const Job& job) const {
    const std::vector<double>& n = input_.memory.numbers[key(job)];
    const double revision = job.view->revision, workers = job.asked_for();
    const bool is_of_these = n.size() == ShareSearch::kNumbers && n[0] == revision;
    return is_of_these && n[1] == workers ? ShareSearch::of(n) : ShareSearch{revision, workers};
  }

  // Keeps for a while which devices inference lacked, as it may decide less often than the plan.
  void note_needs() {
    std::map<std::string, std::vector<double>>& numbers = input_.memory.numbers;
    for (const DeviceId& id : input_.reclaimed) numbers[std::string(kNeeded) + id] = {input_.now()};
    std::erase_if(numbers, [&](const auto& entry) {
      return entry.first.starts_with(kNeeded) &&
             (entry.second.empty() || input_.now() - entry.second[0] > kYields);
    });
  }
  bool is_needed(const Worker& w) const {
    return input_.memory.numbers.contains(std::string(kNeeded) + sites_[w.device].device->id);
  }

  static Quota beside(const Job& job) {
    return {settings(job).floor, std::max(settings(job).floor, kBeside)};
  }
  // What a worker should have.
  Quota wanted(const Job& job, const Worker& w, const ShareSearch& s) const {
    if (is_needed(w)) return {settings(job).floor, settings(job).floor};
    return s.searches() && !is_alone(job) ? beside(job) : s.quota();
  }
  // What it can have now: its device's other instances may have taken time from it.
  Quota possible(const Job& job, const Worker& w, const ShareSearch& s) const {
    const Quota quota = wanted(job, w, s);
    return {std::min(quota.request, layouts_[w.device].max_quota(w.instance->id)), quota.limit};
  }

  // Stops workers beyond those that the job asks for now. Returns how many.
  int stop_surplus(const Job& job) {
    int stopped = 0;
    for (size_t i = static_cast<size_t>(job.asked_for()); i < job.workers.size(); ++i) {
      const Device& device = *sites_[job.workers[i].device].device;
      if (device.drained || !device.reachable) continue;
      ++stopped;
      actions_.push_back(
          stop_worker(job, job.workers[i],
                      {"job-shrinks",
                       "The job has no more than " + counted(job.asked_for(), "worker") + ".",
                       {}}));
    }
    return stopped;
  }

  // Returns whether as many workers as the job asks for train, all with its quota, and no others.
  bool is_steady(const Job& job, const ShareSearch& s) const {
    const auto all = input_.index.of_function(*input_.index.function(job.name()));
    return std::ssize(job.workers) == job.asked_for() && job.workers.size() == all.size() &&
           std::ranges::all_of(job.workers, [&](const Worker& w) {
             return w.instance->state == InstanceState::kReady &&
                    w.instance->slice().quota == s.quota();
           });
  }

  bool is_alone(const Job& job) const {
    return std::ranges::all_of(
        job.workers, [&](const Worker& w) { return layouts_[w.device].rooms().size() == 1; });
  }

  void advance(const Job& job, ShareSearch& s) const {
    const JobView& state = job.state();
    const double now = input_.now(), reported = seconds(state.reported.time_since_epoch());
    const auto done = static_cast<double>(state.done);
    const double trial = seconds(settings(job).trial);
    if (!is_alone(job) || !is_steady(job, s)) return s.begin_trial(0);
    if (s.begun == 0 || s.begun > now) s.begin_trial(now);
    if (s.from == 0) {
      const bool first = s.stage == ShareSearch::kMeasuresWhole;  // a module compiles in it
      if (reported < s.begun + (first ? trial : kSettles)) return;
      s.from = reported, s.done = done;
      if (first) s.batch = state.batch;
    }
    if (s.batch != state.batch) {
      s = ShareSearch{s.revision, s.workers};
    } else if (reported - s.from < trial) {
      return;
    } else if (done > s.done) {
      s.take((done - s.done) / (reported - s.from), settings(job));
    }
    s.begin_trial(now);
  }

  // Says why the worker has the quota that it should.
  Reason reason(const Job& job, const Worker& w, const ShareSearch& s) const {
    const std::string floor = percent(settings(job).floor);
    if (is_needed(w))
      return {"job-yields",
              "Inference needs time of " + sites_[w.device].device->id + ": its share is " + floor +
                  " for a minute.",
              {}};
    if (s.searches() && !is_alone(job)) return unmeasured(job);
    return s.reason(settings(job));
  }
  static Reason unmeasured(const Job& job) {
    return {"job-unmeasured",
            "Its shares are measured while it is alone on its devices. Until then its request is " +
                percent(beside(job).request) + ", its limit " + percent(beside(job).limit) + ".",
            {}};
  }

  void resize(const Job& job, const ShareSearch& s) {
    for (const Worker& w : job.workers) {
      const Device& device = *sites_[w.device].device;
      const Quota quota = possible(job, w, s);
      Part part = w.instance->first();
      if (part.slice.quota == quota || w.instance->state != InstanceState::kReady ||
          !device.reachable || device.drained)
        continue;
      Layout& layout = layouts_[w.device];
      layout.resize(w.instance->id, quota.request);
      layout.set_limit(w.instance->id, quota.limit);
      part.slice.quota = quota;
      part.position = layout.room(w.instance->id).position;
      actions_.push_back({job.name(), ResizeInstance{w.instance->id, {part}}, reason(job, w, s)});
    }
  }

  void start(const Job& job, int missing) {
    const ShareSearch s = recall(job);
    Quota quota = s.quota();
    const Bytes memory = job.view->spec.memory;
    const auto place = [&] {
      return layouts_.place({job.view, kWhole, quota, memory, missing, nullptr, /*apart=*/true});
    };
    std::vector<Spot> spots = place();
    Reason why = s.reason(settings(job));
    if (spots.empty()) {  // on what inference leaves
      quota = s.searches() ? beside(job) : Quota{settings(job).floor, quota.limit};
      if (s.searches()) why = unmeasured(job);
      spots = place();
    }
    if (spots.empty()) {
      actions_.push_back({job.name(), Unmet{}, why_waiting(job, missing, quota)});
      return;
    }
    for (const Spot& spot : spots) {
      const Site& site = sites_[*input_.index.device(spot.device->device().id)];
      Room room{"start " + std::to_string(started_++), kWhole, quota.request, {}, memory};
      room.limit = quota.limit;
      room.owner = job.view;
      spot.device->place(room, spot.opening);
      Reason reason = why;
      reason.rule = "job-starts";
      reason.text = "Started on " + site.device->id + ". " + reason.text;
      const Share begin = spot.device->room(room.id).position.time_begin;
      actions_.push_back(start_worker(job, site, begin, quota, std::move(reason)));
    }
  }

  Reason why_waiting(const Job& job, int missing, Quota quota) const {
    return {"job-waits",
            "The job needs " + counted(job.asked_for(), "worker") + ", each on a device with " +
                percent(quota.request) +
                " of its time and the memory free; too few have that for the " +
                std::to_string(missing) + " that it lacks. " +
                std::string(layouts_.placement().bound),
            {{"missing", missing}, {"request", quota.request.fraction()}}};
  }

  Input& input_;
  const std::vector<Job> jobs_;
  const std::vector<Site> sites_;
  Layouts layouts_;
  std::vector<Action> actions_;
  int started_ = 0;
};

}  // namespace

std::span<const Setting<DiluPlanSettings>> DiluPlanSettings::settings() {
  using S = DiluPlanSettings;
  static constexpr Setting<S> kAll[] = {
      {"trial", &S::trial, 1, 600, "for which samples are counted at a share, at least"},
      {"keeps", &S::keeps, 100, 950, "of the throughput with a whole device, by the request"},
      {"tolerance", &S::tolerance, 5, 300,
       "of a throughput, and of the interval that ends a search"},
      {"floor", &S::floor, 1, 1000, "the request of a worker that is not measured, or yields"},
  };
  return kAll;
}

std::vector<Action> plan_dilu(Input& input) {
  return DiluPlan(input).decide();
}

}  // namespace sluice::policy
