#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/replace_file.h"
#include "train/arrays.h"
#include "train/checkpoints.h"
#include "train/group.h"
#include "train/group_profile.h"
#include "train/link.h"
#include "train/module.h"

namespace sluice::train {
namespace {

constexpr int kNormsEvery = 4;  // steps; a square of all gradients is another pass over them
constexpr Nanos kPoll = Millis(50);
constexpr Nanos kAnswerPatience = Seconds(10);
constexpr int kWarmUps = 3;

// What the ranks sum beside the gradients (Module::slots).
enum Slot : size_t {
  kLoss,    // each rank's share of the mean loss
  kHalt,    // how many ranks want to end the generation
  kBatch,   // rank 0's: the batch from the next step on; 0: as it is
  kSquare,  // Σ (b_i ÷ M)·|g_i|²: the mean square of the ranks' own gradients
};

class Trainer {
 public:
  Trainer(const TrainerSettings& settings, const Clock& clock, const std::atomic<bool>& ending)
      : settings_(settings), clock_(clock), ending_(ending) {}

  Result<void> run();

 private:
  enum class End { kHalted, kLost, kFinished, kFailed };

  Result<void> connect();
  Result<void> load();
  void warm_up();
  Result<std::optional<ControllerMessage>> next();
  bool leave_is_overdue();
  void take_part(const Form& form);
  End generation(const Form& form);
  Result<void> begin(const Form& form, Group& group);
  std::optional<End> step(const Form& form, Group& group);
  Result<void> backward(const SampleRange& all, Group& group, int64_t generation);
  void profile(const Form& form, const Group& group, int samples);
  void report(const Form& form, double loss, Nanos whole, Nanos waited);
  void learn_noise(const SampleRange& all, int world);
  std::span<const uint32_t> part_of(const SampleRange& all, int rank, int world);
  Result<void> save();
  Result<void> finish();
  void fail(std::string error, bool for_good);

  const TrainerSettings& settings_;
  const Clock& clock_;
  const std::atomic<bool>& ending_;
  std::shared_ptr<Link> link_;
  Welcome job_;
  std::optional<Arrays> data_;
  std::unique_ptr<Module> module_;
  Fd ready_;  // listens; nothing is ever read from it

  JobPosition at_;
  bool has_parameters_ = false;
  bool initial_ = true;  // the module is as its file has it
  int64_t generation_ = 0;
  int batch_ = 0;
  std::vector<uint32_t> order_;
  int64_t order_of_ = -1;  // epoch
  NoiseScale noise_;
  double own_square_ = 0;   // |g_i|² of this step, times (b_i ÷ M)²
  FirstSteps first_steps_;  // of the generation
  Time first_begun_{}, step_begun_{};
  MeasuredStep measured_;  // this step
  std::string trouble_;

  Time saved_{}, reported_{};
  int64_t generation_reported_ = 0;
  int64_t reported_samples_ = 0, samples_ = 0;  // of this worker's life, over all ranks
  std::optional<Time> asked_to_leave_;
};

// Tries again until a controller of the job answers. A worker that is to end does not wait for it
// as long.
Result<void> Trainer::connect() {
  const Time begun = clock_.now();
  link_.reset();
  for (;;) {
    Hello hello{settings_.job, settings_.key, settings_.worker};
    hello.generation = generation_;
    hello.step = has_parameters_ ? at_.step : -1;
    if (auto link = Link::open(settings_.controller, hello); link.ok()) {
      auto answer = (*link)->next(kAnswerPatience);
      if (answer && std::holds_alternative<Refused>(*answer))
        return Error{ErrorKind::kConflict, "refused: " + std::get<Refused>(*answer).error};
      if (answer && std::holds_alternative<Welcome>(*answer) &&
          std::get<Welcome>(*answer).term >= job_.term) {
        job_ = std::get<Welcome>(std::move(*answer));
        link_ = std::move(*link);
        return {};
      }
    }
    const Nanos patience = ending_ ? settings_.leave_patience : settings_.reconnect_patience;
    if (clock_.now() - begun >= patience)
      return Error{ErrorKind::kUnavailable, "no controller of the job answers"};
    std::this_thread::sleep_for(kPoll);
  }
}

Result<void> Trainer::load() {
  SLUICE_ASSIGN(data, Arrays::open(job_.dataset));
  data_.emplace(std::move(data));
  SLUICE_ASSIGN(module, Module::load(job_.model, *data_));
  module_ = std::move(module);
  warm_up();
  if (settings_.ready_port > 0) {
    SLUICE_ASSIGN(ready, wire::listen_on({.host = "127.0.0.1",
                                          .port = static_cast<uint16_t>(settings_.ready_port)}));
    ready_ = std::move(ready);
  }
  return {};
}

// TorchScript compiles in the first passes. They run here, with as many samples as one of two
// workers has in a step, so that a group need not wait for them. If they fail, so may the first
// step, which says it: a module may take other sizes only.
void Trainer::warm_up() {
  std::vector<std::string> kept;  // buffers such as running means change even so
  for (const StatePiece& p : module_->state()) kept.emplace_back(p.data, p.bytes);
  const SampleRange part =
      shard(step_range({}, job_.batch, data_->samples()), 0, 2, job_.least_part);
  std::vector<uint32_t> samples(static_cast<size_t>(part.count()));
  std::iota(samples.begin(), samples.end(), 0U);
  for (int pass = 0; pass < kWarmUps; ++pass)
    if (const auto done = module_->backward(samples, 1, [](size_t, double) {}); !done.ok()) {
      log::warn("warm-up with {} samples: {}", samples.size(), done.error().message);
      break;
    }
  const std::vector<StatePiece> pieces = module_->state();
  for (size_t i = 0; i < pieces.size(); ++i)
    std::copy(kept[i].begin(), kept[i].end(), pieces[i].data);
}

Result<void> Trainer::run() {
  SLUICE_TRY(connect());
  if (const auto loaded = load(); !loaded.ok()) {
    fail(loaded.error().message, true);
    link_->next(Seconds(2));  // until the message was read
    return loaded;
  }
  saved_ = reported_ = clock_.now();
  for (;;) {
    (void)link_->send(Loaded{data_->samples(), module_->parameter_bytes()});
    for (;;) {
      SLUICE_ASSIGN(message, next());
      if (!message) break;  // the controller is gone
      if (const auto* form = std::get_if<Form>(&*message)) take_part(*form);
      if (const auto* leave = std::get_if<Leave>(&*message)) {
        if (leave->save && has_parameters_) SLUICE_TRY(save());
        return {};
      }
      if (const auto* refused = std::get_if<Refused>(&*message))
        return Error{ErrorKind::kConflict, "refused: " + refused->error};
    }
    log::info("the controller is gone; waiting for the next one");
    SLUICE_TRY(connect());
  }
}

// Returns nullopt once the controller is gone, and kTimeout if it does not let this worker leave.
Result<std::optional<ControllerMessage>> Trainer::next() {
  for (;;) {
    if (auto message = link_->next(kPoll)) return message;
    if (link_->lost()) return std::optional<ControllerMessage>();
    if (leave_is_overdue())
      return Error{ErrorKind::kTimeout, "was to end, and the controller did not let it leave"};
  }
}

// Asks to leave once this worker is to end.
bool Trainer::leave_is_overdue() {
  if (!ending_) return false;
  if (!asked_to_leave_) {
    asked_to_leave_ = clock_.now();
    (void)link_->send(Leaving{});
  }
  return clock_.now() - *asked_to_leave_ >= settings_.leave_patience;
}

void Trainer::take_part(const Form& form) {
  generation_ = form.generation;
  batch_ = form.batch;
  const End end = generation(form);
  if (end == End::kFinished && form.rank == 0)
    if (const auto done = finish(); !done.ok()) fail(done.error().message, false);
  // What a step that was not taken left behind is kept, but for what its forward pass spoilt.
  if (end == End::kFailed) has_parameters_ = has_parameters_ && module_->check_numbers().ok();
  (void)link_->send(Stopped{form.generation, has_parameters_ ? at_.step : -1,
                            end == End::kLost ? "lost" : "halted"});
}

Trainer::End Trainer::generation(const Form& form) {
  Result<std::unique_ptr<Group>> group = Group::form(link_, form, clock_);
  if (!group.ok()) {
    log::info("generation {}: {}", form.generation, group.error().message);
    return End::kLost;
  }
  link_->forget_adapted();
  if (const auto begun = begin(form, **group); !begun.ok()) {
    if (begun.error().kind == ErrorKind::kUnavailable) return End::kLost;
    fail(begun.error().message, true);
    return End::kFailed;
  }
  first_steps_ = {};
  first_begun_ = clock_.now();
  while (at_.epoch < job_.epochs) {
    leave_is_overdue();
    if (const auto end = step(form, **group)) return *end;
  }
  return End::kFinished;
}

// Brings all ranks to the newest parameters among them.
Result<void> Trainer::begin(const Form& form, Group& group) {
  if (form.rank == 0 && !has_parameters_ && !initial_) {  // they were lost while they changed
    SLUICE_ASSIGN(module, Module::load(job_.model, *data_));
    module_ = std::move(module);
    at_ = {};
  }
  initial_ = false;
  if (!form.resume.empty()) {
    SLUICE_ASSIGN(found,
                  load_newest_checkpoint(form.resume, module_->description(), module_->state()));
    const Checkpoint& c = found.checkpoint;
    at_ = c.at;
    trouble_ = found.passed_over;
    if (!trouble_.empty()) {
      log::warn("{}", trouble_);
      (void)link_->send(Saved{c.at, c.path, c.bytes, 0});
    }
  }
  if (form.sync) {
    int64_t position[] = {at_.step, at_.epoch, at_.sample};
    group.broadcast(reinterpret_cast<char*>(position), sizeof position);
    for (const StatePiece& p : module_->state()) group.broadcast(p.data, p.bytes);
    has_parameters_ = false;  // while they change
    SLUICE_TRY(group.wait());
    at_ = {position[0], position[1], position[2]};
  }
  has_parameters_ = true;
  return {};
}

// One step of all ranks. Returns nullopt if another one follows in this generation.
std::optional<Trainer::End> Trainer::step(const Form& form, Group& group) {
  const Time begun = step_begun_ = clock_.now();
  const SampleRange all = step_range(at_, batch_, data_->samples());
  if (at_.sample == 0)
    if (const auto same = data_->check_unchanged(); !same.ok()) {
      fail(same.error().message, false);
      return End::kFailed;
    }
  if (const auto done = backward(all, group, form.generation); !done.ok()) {
    fail("step " + std::to_string(at_.step) + ": " + done.error().message, true);
    return End::kFailed;
  }
  const Time computed = clock_.now();
  if (!group.wait().ok()) return End::kLost;
  const Time summed = clock_.now();

  const std::span<const float> slots = module_->slots();
  const double loss = slots[kLoss];
  const bool halted = slots[kHalt] > 0;
  const int next_batch = static_cast<int>(slots[kBatch]);
  if (!std::isfinite(loss)) {
    if (form.rank == 0)
      fail("the loss of step " + std::to_string(at_.step) +
               " is not finite: " + std::to_string(loss) + "; the step was not taken",
           false);
    return End::kFailed;
  }
  // Linear scaling: the rate belongs to the least batch, and counts a step by its samples.
  const double rate = job_.learning_rate * static_cast<double>(all.count()) / job_.batch;
  if (const auto taken = module_->step(rate, job_.momentum); !taken.ok()) {
    // All ranks have the same sums, and none takes it.
    if (form.rank == 0)
      fail(taken.error().message + "; step " + std::to_string(at_.step) + " was not taken", false);
    return End::kFailed;
  }
  measured_.compute = seconds(computed - begun);
  measured_.optimizer = seconds(clock_.now() - summed);
  if (form.rank == 0 && first_steps_.open()) profile(form, group, static_cast<int>(all.count()));
  learn_noise(all, form.world);
  at_ = after(at_, all, data_->samples());
  samples_ += all.count();
  if (next_batch > 0) batch_ = next_batch;
  if (form.rank == 0) report(form, loss, clock_.now() - begun, summed - computed);
  if (halted) return End::kHalted;
  if (form.rank == 0 && clock_.now() - saved_ >= settings_.checkpoint_every) {
    const auto saved = save();
    trouble_ = saved.ok() ? "" : saved.error().message;
    if (!saved.ok()) log::warn("no checkpoint: {}", trouble_);
    saved_ = clock_.now();
  }
  return std::nullopt;
}

// Sums the ranks' gradients, bucket by bucket, while the backward pass goes on.
Result<void> Trainer::backward(const SampleRange& all, Group& group, int64_t generation) {
  const std::span<const uint32_t> mine = part_of(all, group.rank(), group.world());
  // A rank's mean gradient counts by its part of the samples: their sum is the step's mean.
  const double weight = static_cast<double>(mine.size()) / static_cast<double>(all.count());
  const bool norms = group.world() > 1 && at_.step % kNormsEvery == 0;
  module_->seed(job_.seed + static_cast<uint64_t>(at_.step) * 1024 +
                static_cast<uint64_t>(group.rank()));
  own_square_ = 0;
  measured_.ready.clear();
  return module_->backward(mine, weight, [&](size_t bucket, double loss) {
    measured_.ready.push_back(seconds(clock_.now() - step_begun_));
    if (norms) own_square_ += module_->square_of_gradients(bucket);
    if (bucket + 1 == module_->buckets()) {
      const std::span<float> slots = module_->slots();
      std::fill(slots.begin(), slots.end(), 0.0F);
      slots[kLoss] = static_cast<float>(loss * weight);
      slots[kHalt] = link_->halted(generation) ? 1 : 0;
      slots[kBatch] = group.rank() == 0 ? static_cast<float>(link_->adapted_batch()) : 0;
      slots[kSquare] = weight > 0 ? static_cast<float>(own_square_ / weight) : 0;
    }
    const std::span<float> numbers = module_->gradients(bucket);
    group.sum(numbers.data(), numbers.size());
  });
}

std::span<const uint32_t> Trainer::part_of(const SampleRange& all, int rank, int world) {
  if (order_of_ != at_.epoch) {
    order_ = epoch_order(job_.seed, at_.epoch, static_cast<uint32_t>(data_->samples()));
    order_of_ = at_.epoch;
  }
  const SampleRange mine = shard(all, rank, world, job_.least_part);
  return std::span(order_).subspan(static_cast<size_t>(mine.begin),
                                   static_cast<size_t>(mine.count()));
}

void Trainer::learn_noise(const SampleRange& all, int world) {
  if (world == 1 || at_.step % kNormsEvery != 0) return;
  GradientNorms n{.small = static_cast<double>(all.count()) / parts(all, world, job_.least_part),
                  .big = static_cast<double>(all.count()),
                  .small_square = module_->slots()[kSquare]};
  for (size_t b = 0; b < module_->buckets(); ++b) n.big_square += module_->square_of_gradients(b);
  noise_.add(n);
}

// Counts this step among the generation's first, and reports their profile once.
void Trainer::profile(const Form& form, const Group& group, int samples) {
  std::vector<double> bytes;
  for (size_t b = 0; b < module_->buckets(); ++b)
    bytes.push_back(static_cast<double>(module_->gradients(b).size_bytes()));
  measured_.sums = group.seconds_of_operations();
  measured_.sums.resize(bytes.size());
  auto profiled = first_steps_.add(measured_, bytes, samples, clock_.now() - first_begun_);
  if (!profiled) return;
  profiled->generation = form.generation;
  (void)link_->send(*profiled);
}

void Trainer::report(const Form& form, double loss, Nanos whole, Nanos waited) {
  const Time now = clock_.now();
  const bool first = generation_reported_ != form.generation;
  if (!first && now - reported_ < settings_.report_every && at_.epoch < job_.epochs) return;
  Progress p{form.generation, at_, loss, batch_, seconds(whole), seconds(waited)};
  const double passed = seconds(now - reported_);
  p.samples_per_second =
      passed > 0 ? static_cast<double>(samples_ - reported_samples_) / passed : 0;
  p.noise = noise_.value();
  p.trouble = trouble_;
  (void)link_->send(p);
  generation_reported_ = form.generation;
  reported_ = now;
  reported_samples_ = samples_;
}

Result<void> Trainer::save() {
  const Time begun = clock_.now();
  SLUICE_ASSIGN(c, save_checkpoint(job_.artifacts, module_->description(), at_, module_->state()));
  (void)link_->send(Saved{c.at, c.path, c.bytes, seconds(clock_.now() - begun)});
  return {};
}

Result<void> Trainer::finish() {
  SLUICE_TRY(save());
  const std::string model = job_.artifacts + "/model.pt";
  SLUICE_TRY(module_->save(model));
  // A module whose forward takes other arguments than the first arrays has to be described by its
  // user.
  if (const auto signature = module_->signature(*data_); signature.ok()) {
    SLUICE_TRY(replace_file(job_.artifacts + "/model.json", *signature, 0644));
  } else {
    log::warn("{}", signature.error().message);
  }
  (void)link_->send(Finished{at_.step, model});
  return {};
}

void Trainer::fail(std::string error, bool for_good) {
  log::error("{}", error);
  (void)link_->send(Failed{std::move(error), for_good});
}

}  // namespace

Result<void> train(const TrainerSettings& settings, const Clock& clock,
                   const std::atomic<bool>& ending) {
  return Trainer(settings, clock, ending).run();
}

}  // namespace sluice::train
