#include "sim/scenario_loads.h"

#include <algorithm>

#include "base/words.h"
#include "control/spec/function_file.h"
#include "sim/rate_file.h"
#include "sim/recorded_load.h"
#include "trace/text_file.h"

namespace sluice::sim {
namespace {

using control::Fields;

constexpr Nanos kShortest = Micros(1);  // a step
constexpr double kFastest = 1e6;
constexpr size_t kMostStepsInAll = 10'000'000;
constexpr size_t kMostArrivalsInAll = 50'000'000;

}  // namespace

void read_function(Fields& f, const std::vector<FunctionSpec>& functions, FunctionName& out) {
  f.need("function", "the name of one of the functions below");
  std::string text;
  if (!f.text("function", text)) return;
  out = function_name(text);
  if (std::ranges::find(functions, out, &FunctionSpec::name) != functions.end()) return;
  std::vector<std::string> known;
  for (const FunctionSpec& spec : functions) known.push_back(served_name(spec.name));
  f.complain("function",
             "\"" + text + "\" is no function of this file" + control::did_you_mean(text, known));
}

void LoadReader::read(Fields& f) {
  Load load;
  read_function(f, out_.functions, load.function);
  f.integer("inferences", load.inferences, 1, 1024);
  if (int seed = 0; f.has("seed")) {
    f.integer("seed", seed, 0, 1'000'000'000);
    load.seed = static_cast<uint64_t>(seed);
  }
  gaps(f, load);
  const int forms = f.has("rate") + f.has("stages") + f.has("file");
  if (forms != 1) f.complain("rate", "a load has one of rate, stages and file");
  double rate = 0;
  f.number("rate", rate, 0, kFastest);
  if (rate > 0) load.plan = {{out_.duration, rate}};
  stages(f, load);
  from_file(f, load);
  keep(f, std::move(load));
}

void LoadReader::keep(Fields& f, Load load) {
  steps_ += load.plan.size();
  arrivals_ += load.times.size();
  if (steps_ > kMostStepsInAll || arrivals_ > kMostArrivalsInAll) {
    f.complain("function", "the loads up to here have more than " +
                               std::to_string(kMostStepsInAll) + " steps or " +
                               std::to_string(kMostArrivalsInAll) + " arrivals");
    load.plan = {};
    load.times = {};
  }
  out_.loads.push_back(std::move(load));
}

void LoadReader::gaps(Fields& f, Load& load) {
  std::string kind = "poisson";
  f.text("gaps", kind);
  if (kind != "poisson" && kind != "constant" && kind != "gamma")
    f.complain("gaps", "\"" + kind + "\" is neither poisson, constant nor gamma");
  load.gaps.kind = kind == "constant" ? Gaps::Kind::kConstant
                   : kind == "gamma"  ? Gaps::Kind::kGamma
                                      : Gaps::Kind::kPoisson;
  f.number("cv", load.gaps.cv, 0.01, 20);
}

void LoadReader::stages(Fields& f, Load& load) {
  read_each({f, spec_.source, spec_.problems}, "stages", 1, [&](Fields& s) {
    RateStep step{.duration = Seconds(1)};
    s.need("duration", "a duration such as 10s");
    s.need("rate", "requests a second");
    s.duration("duration", step.duration, Millis(1), kLongest);
    s.number("rate", step.rate, 0, kFastest);
    load.plan.push_back(step);
  });
}

void LoadReader::from_file(Fields& f, Load& load) {
  const bool named = f.has("file"), kept = !f.has("scale") && !f.has("repeat") && !f.has("speed");
  for (const char* key : {"format", "row", "scale", "speed", "step", "repeat", "as"})
    if (!named && f.has(key)) f.complain(key, "goes with file");
  std::string path = read_word(f, "file"), format = "rates", row = read_word(f, "row"), name;
  f.text("format", format);
  double scale = 1, speed = 1;
  Nanos step = Seconds(1);
  bool repeat = true;
  f.number("speed", speed, 0.001, 100'000);
  f.number("scale", scale, 0, 1e6);
  f.duration("step", step, Millis(1), std::chrono::hours(24));
  if (const std::string text = read_word(f, "repeat"); !text.empty()) {
    repeat = text == "true";
    if (text != "true" && text != "false") f.complain("repeat", "must be true or false");
  }
  f.text("as", name);
  if (named && path.empty()) f.complain("file", "must name a file");
  if (path.empty()) return;
  const std::string at = folder_ / path;
  if (format == "arrivals") {
    if (!kept) f.complain("format", "arrivals are neither scaled nor repeated");
    auto times = read_arrivals(at, name.empty() ? load.function.name : name, out_.duration);
    if (!times.ok()) return f.complain("file", times.error().message);
    load.times = std::move(*times);
    return;
  }
  Result<RatePlan> plan = RatePlan{};
  if (format == "rates") {
    const auto text = trace::read_text(at);
    if (!text.ok()) return f.complain("file", text.error().message);
    plan = parse_rates(*text, {.step = step, .scale = scale});
    if (!plan.ok()) plan = within(at, plan.error());
  } else {
    std::vector<std::string> known{"rates", "arrivals"};
    for (const trace::RateFormat& r : trace::rate_formats()) known.emplace_back(r.name);
    if (std::ranges::count(known, format) == 0)
      return f.complain("format", not_found("format", format, known));
    const auto rates = trace::read_rates(format, at, {.scale = scale, .every = step, .row = row});
    plan = rates.ok() ? plan_of(*rates) : rates.error();
    if (rates.ok() && !plan.ok()) plan = within(at, plan.error());
  }
  if (!plan.ok()) return f.complain("file", plan.error().message);
  for (RateStep& s : *plan)
    s.duration = std::max(std::chrono::round<Nanos>(s.duration / speed), kShortest);
  const int64_t times = repeat ? out_.duration / total_duration(*plan) + 1 : 1;
  if (times > static_cast<int64_t>(kMostStepsInAll / plan->size()))
    return f.complain("file", path + ": repeated over the duration it has more than " +
                                  std::to_string(kMostStepsInAll) + " steps");
  load.plan = repeat ? fit_to(*plan, out_.duration) : std::move(*plan);
}

}  // namespace sluice::sim
