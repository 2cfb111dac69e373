// `sluice quickstart --training`: the load and a training job, each alone and both together, and
// what they cost each other.
#include <iostream>
#include <thread>

#include "cli/quickstart.h"
#include "cli/table.h"
#include "control/spec/function_text.h"

namespace sluice::cli {
namespace {

using nlohmann::json;
using wire::http::verb;

constexpr const char* kJob = "digits";
constexpr int kEpochs = 1'000'000;  // it ends with the play
constexpr Nanos kStartPatience = Seconds(60);

Result<json> job_now(const Session& session) {
  SLUICE_ASSIGN(f, session.api(verb::get, std::string("/v1/functions/default/") + kJob));
  return f["job"];
}

// Violations are the only part of a comparison whose ratio says little: they may be 0.
void add_row(Table& t, const std::string& what, double alone, double together, int digits,
             const std::string& unit) {
  t.add({what, fixed(alone, digits) + unit, fixed(together, digits) + unit,
         alone > 0 ? fixed(together / alone, 2) + "x" : "-"});
}

}  // namespace

Result<void> deploy_job(const Session& session, const QuickstartFlags& f) {
  FunctionSpec spec;
  spec.name.name = kJob;
  TrainingSpec job;
  job.model.path = f.training_data + "/digits.pt";
  job.dataset = f.training_data + "/digits";
  job.epochs = kEpochs;
  spec.kind = job;
  SLUICE_ASSIGN(answer, session.api_raw(verb::post, "/v1/functions?file=quickstart",
                                        control::to_yaml(spec), "application/yaml"));
  if (answer.result_int() != 200) return Error{ErrorKind::kInvalid, answer.body()};
  const SteadyClock clock;
  for (const Time begun = clock.now(); clock.now() - begun < kStartPatience;) {
    SLUICE_ASSIGN(now, job_now(session));
    if (now.value("step", 0) > 0) return {};
    std::this_thread::sleep_for(Millis(100));
  }
  return Error{ErrorKind::kTimeout, std::string(kJob) +
                                        ": has not begun to train; see sluice --data " +
                                        session.data + " describe " + kJob};
}

JobMeter::JobMeter(const Session& session) : session_(session), begun_(clock_.now()) {
  if (const auto now = job_now(session); now.ok()) first_ = (*now)["done"];
}

Result<json> JobMeter::read() const {
  SLUICE_ASSIGN(now, job_now(session_));
  const double passed = seconds(clock_.now() - begun_);
  return json{
      {"samples", now["done"].get<int64_t>() - first_},
      {"samples_per_second", static_cast<double>(now["done"].get<int64_t>() - first_) / passed},
      {"changes", now["reforms"].size()}};
}

Result<json> play_with_training(const Session& session, QuickstartFlags f) {
  std::vector<Plan> plans;
  const auto part = [&](const char* what, bool serves, bool trains) {
    std::cout << "\n== " << what << "\n";
    f.serves = serves, f.trains = trains;
    return play(session, f, plans);
  };
  SLUICE_ASSIGN(inference, part("the load alone", true, false));
  SLUICE_ASSIGN(job, part("the training job alone", false, true));
  SLUICE_ASSIGN(both, part("both together", true, true));

  Table t({"", "ALONE", "TOGETHER", "RATIO"});
  for (size_t i = 0; i < both["functions"].size(); ++i) {
    const json &alone = inference["functions"][i], &together = both["functions"][i];
    const std::string name = function_name(together["name"].get<std::string>()).name;
    add_row(t, name + " p95", alone["p95_ms"], together["p95_ms"], 0, "ms");
    add_row(t, name + " violations", alone["violations_pct"], together["violations_pct"], 2, "%");
  }
  add_row(t, std::string(kJob) + " samples/s", job["job"]["samples_per_second"],
          both["job"]["samples_per_second"], 0, "");
  std::cout << "\nwhat the load and the training job cost each other\n" << t.text();
  SLUICE_TRY(nothing_failed(inference));
  SLUICE_TRY(nothing_failed(both));
  if (both["job"]["samples"] == 0)
    return Error{ErrorKind::kInternal, "the job trained nothing beside the load"};
  SLUICE_ASSIGN(loan, play_loan(session, f, plans.back()));
  return json{{"inference", inference}, {"training", job}, {"together", both}, {"loan", loan}};
}

}  // namespace sluice::cli
