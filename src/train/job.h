// A job's controller, as a pure state machine: which workers form the next generation, with which
// ranks and batch. Messages of workers and the time come in; messages to workers go out. The
// sockets are job_server.h's.
//
// A *generation* is a group of workers with ranks. Its members change only by forming the next one:
// they stop at a step that all have taken (Halt, or the loss of one of them), say so, and those
// that stay are given their ranks together with those that have joined. Parameters stay in the
// workers; the controller has none, so that its death costs a wait.
//
// One owner, one thread.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "train/job_status.h"
#include "train/messages.h"
#include "train/step_history.h"

namespace sluice::train {

struct JobSettings {
  std::string name;  // in reasons
  Welcome job;       // for each worker; its batch and learning rate are not 0
  int min_workers = 1;
  int max_workers = 0;                  // 0: no bound
  BatchRange batch;                     // of a step
  Nanos join_patience = Seconds(2);     // for others that load, so that all join at once
  Nanos save_patience = Seconds(15);    // for the checkpoint of the last that leave
  Nanos hello_patience = Seconds(120);  // from a worker's start until it says hello
  Nanos return_patience = Seconds(45);  // for a worker that runs and has no connection
  Nanos stop_patience = Seconds(60);    // of a member, once another has lost the group
  Nanos adapt_every = Seconds(10);      // between two changes of the batch within a generation
  std::optional<Saved> resume;          // the newest checkpoint
  std::shared_ptr<StepHistory> steps;   // that jobs of its model share; null: its own
  bool script = false;                  // its workers state their learning rate, or have none
  bool finished = false;                // it was before
  int64_t samples = 0;                  // of an epoch, of one that was; 0: not known
  std::string trained;                  // and left this model; empty: none
};

// What a generation's workers may keep in the store. More is refused, and named.
inline constexpr size_t kMostKeys = 4096;
inline constexpr size_t kLongestKey = 256;
inline constexpr size_t kLongestValue = 32 * 1024;
inline constexpr size_t kMostStored = 4 * 1024 * 1024;  // bytes, of keys and values
inline constexpr size_t kMostWaiting = 4096;            // questions without an answer yet

// So many workers that ended by themselves pause a job, if no step was new between them.
inline constexpr int kMostFailures = 3;

struct Outgoing {
  std::string worker;
  ControllerMessage message;
};

class Job {
 public:
  Job(JobSettings settings, Time now);

  // That worker was started, and should say hello.
  void expect(const std::string& worker, Time now);
  // That worker's process runs. If it is not here it should return, as after another controller.
  void expect_back(const std::string& worker, Time now);
  // That worker's process has ended; `error` says how, and is empty if it was stopped. Returns
  // whether it had done anything: it was a member while a step was taken.
  bool ended(const std::string& worker, const std::string& error, Time now);
  // Goes on without that worker, which hangs, and refuses it from now on. `why`: see Straggler.
  std::vector<Outgoing> give_up(const std::string& worker, std::string why, Time now);
  // Each returns what is to be sent, in order. A worker whose name is in use is refused.
  std::vector<Outgoing> hello(const Hello& hello, Time now);
  // On which node that worker is, which has said hello. Those that are not placed are on one node.
  void place(const std::string& worker, std::string node);
  std::vector<Outgoing> receive(const std::string& worker, const WorkerMessage& m, Time now);
  std::vector<Outgoing> closed(const std::string& worker, Time now);
  std::vector<Outgoing> tick(Time now);
  // When to call tick() at the latest, if nothing else happens; nullopt: never.
  std::optional<Time> next_tick() const;

  JobPhase phase() const { return phase_; }
  const std::string& trouble() const { return trouble_; }
  const std::optional<Progress>& progress() const { return progress_; }
  Time reported() const { return reported_; }   // when that came
  int64_t samples() const { return samples_; }  // of the data set; 0: not read yet
  int64_t generation() const { return generation_; }
  int workers() const;  // with a rank, in a group that has formed
  const std::vector<Reform>& reforms() const { return reforms_; }  // the newest last, 100 at most
  const std::optional<Saved>& newest_checkpoint() const { return saved_; }
  const std::string& model() const { return model_; }  // the trained one, once finished
  const std::vector<std::string>& members() const { return members_; }  // by rank
  int batch() const { return batch_; }
  // Why the batch is what it is, a sentence.
  const std::string& batch_reason() const { return batch_reason_; }
  // Of its measured steps, and before these by its profile; nullopt before both.
  const std::optional<StepModel>& step_model() const { return steps_->model(); }
  // How a step of its model passes; nullptr: no group of its jobs was profiled yet.
  const GroupProfile* profile() const { return steps_->profile(); }
  // Since when it has one; at the earliest, since it was added.
  Time profiled() const {
    return profile() != nullptr ? std::max(added_, steps_->profiled_since()) : Time();
  }
  // Whether the step model rests on the profile, too.
  bool planned_by_profile() const { return steps_->uses_profile(); }
  // Why the job's first group was not profiled; empty: it was, or will be.
  const std::string& not_profiled() const { return not_profiled_; }
  // Whether its first group is to give the profile, as nothing is known of its model's steps.
  bool measures_first() const;
  // φ, as last reported, else as other jobs of its model had it here; 0: unknown.
  double noise() const { return noise_ > 0 ? noise_ : steps_->noise(part_done()); }
  // As rank 0 reported it; else the trainer's: linear in the batch. A script's is 0 until then.
  double learning_rate() const;
  const JobSettings& settings() const { return settings_; }
  const std::vector<Straggler>& stragglers() const { return stragglers_; }
  // Whether it has begun, and takes no step for longer than three of the last ones took.
  bool stalled(Time now) const;

 private:
  enum class State {
    kLoading,  // it reads model and data
    kIdle,     // it waits for a rank
    kMember,   // of the generation, also while it forms and until it has stopped
    kSaving,   // told to write a checkpoint and leave
    kParting,  // told to leave
  };
  struct Worker {
    State state = State::kLoading;
    Time since{};          // in that state
    int64_t step = -1;     // of its parameters, when it last stopped
    bool leaving = false;  // it asked to leave
    std::string node = {};
  };
  using Out = std::vector<Outgoing>;

  void on(const std::string& name, const WorkerMessage& m, Time now);
  void on_stopped(Worker& w, const Stopped& m, Time now);
  void on_progress(const Progress& m, Time now);
  void on_profiled(const std::string& name, const Profiled& m, Time now);
  void give_up_expected(Time now);
  void give_up_hung(Time now);
  std::optional<Nanos> hung_after() const;
  void drop(const std::string& worker, std::string why);
  int choose_batch(const Workers& workers);
  Workers size_of(const std::vector<std::string>& group) const;
  void adapt(Time now);
  void on_set(const std::string& name, const StoreSet& m);
  void on_get(const std::string& name, const StoreGet& m);

  bool open() const { return phase_ == JobPhase::kQueued || phase_ == JobPhase::kRunning; }
  std::vector<std::string> wanted() const;
  bool any(State s) const;
  double part_done() const;                    // of all epochs
  bool possible(const JobPosition& at) const;  // a worker may state anything
  bool still_loading(Time now) const;
  int64_t newest_step() const;

  // Brings the generation towards the wanted workers, by one of the three below.
  void settle(Time now);
  void halt(std::string why, Time now);
  void part(Time now);
  void form(const std::vector<std::string>& names, Time now);
  void change(Worker& w, State s, Time now) { w.state = s, w.since = now; }
  void send(const std::string& worker, ControllerMessage m) {
    out_.push_back({worker, std::move(m)});
  }
  Out take() { return std::exchange(out_, {}); }

  JobSettings settings_;
  Time added_{};
  std::map<std::string, Worker> workers_;
  std::map<std::string, std::string> store_;               // of the newest generation
  size_t stored_ = 0;                                      // bytes in it
  std::multimap<std::string, std::string> store_waiting_;  // workers, by the key that they wait for
  JobPhase phase_ = JobPhase::kQueued;
  std::string trouble_;
  int64_t generation_ = 0;
  int64_t profiled_ = -1;  // the newest generation that reported its profile
  std::vector<std::string> members_;
  bool halting_ = false;
  Reform next_{.why = "start"};  // the change in progress
  struct Expected {
    Time since{};
    Nanos patience{0};
  };
  std::map<std::string, Expected> expected_;  // workers without a connection
  std::set<std::string> useful_;              // workers that were members while a step was taken
  std::vector<Straggler> stragglers_;         // the newest last, 100 at most
  int failures_ = 0;                          // workers that ended since the last new step
  int64_t furthest_ = -1;                     // the newest step ever taken
  Time ticked_{};
  Time halted_{}, stopped_{};        // when it began, and when all had stopped
  bool first_step_missing_ = false;  // of the generation
  Time first_step_{};                // when it was reported
  std::optional<Progress> progress_;
  Time reported_{};    // when that was reported
  Time progressed_{};  // the same, or when the generation was formed if that is later
  std::optional<Saved> saved_;
  std::string model_;
  int64_t samples_ = 0;
  int batch_ = 0;
  std::string batch_reason_ = "It is the least.";
  std::shared_ptr<StepHistory> steps_;  // not null
  std::string not_profiled_;
  double noise_ = 0;
  Time adapted_{};
  std::vector<Reform> reforms_;
  Out out_;
};

// Without what is only for people: members, reforms, the reason of the batch.
JobStatus status_of(const Job& job);

}  // namespace sluice::train
