#include "cli/wait.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "base/clock.h"
#include "model/quantity.h"

namespace sluice::cli {
namespace {

using nlohmann::json;

constexpr int kTries = 3;  // of a first revision; the platform gives up later ones by itself

bool has_traffic(const json& function, int revision) {
  return std::ranges::any_of(function["split"], [&](const json& part) {
    return part["revision"] == revision && part["percent"].get<int>() > 0;
  });
}

// Returns whether it is a canary without traffic, which serves as soon as it could.
bool is_idle_canary(const json& function) {
  return function["canary_percent"] == 0 && function["newest_ready"].get<bool>();
}

enum class Phase { kComes, kServes, kGivenUp, kReplaced };

Phase phase_of(const json& f, int revision) {
  const json& n = f["replicas"];
  if (f["revision"] != revision) return Phase::kReplaced;
  if (!f["rollout_failed"].get<std::string>().empty()) return Phase::kGivenUp;
  const bool first = f["serving"] == revision;
  if (f.contains("job")) {  // it trains, is paused by its user, or has ended
    const json& job = f["job"];
    if (!job.value("trouble", "").empty()) return Phase::kGivenUp;
    const std::string state = job["state"];
    const bool waits =
        state == "running" || state == "stalled" ? !job.value("trains", false) : state == "queued";
    return waits ? Phase::kComes : Phase::kServes;
  }
  if (n["ready"] > 0 && (has_traffic(f, revision) || is_idle_canary(f))) return Phase::kServes;
  if (first && f["start_failures"] >= kTries) return Phase::kGivenUp;
  const bool turned = first || f["canary_percent"] < 100;
  const bool sleeps = turned && n["min"] == 0 && n["starting"] == 0 && n["ready"] == 0;
  return sleeps && f["unavailable"].get<std::string>().empty() ? Phase::kServes : Phase::kComes;
}

std::string what_is_in_the_way(const json& f) {
  if (f.contains("job"))
    if (std::string trouble = f["job"]["trouble"]; !trouble.empty()) return trouble;
  if (std::string why = f["unavailable"]; !why.empty()) return why;
  const json& last = f["last_decision"];
  return last.is_null() ? "nothing was decided yet" : last["reason"]["text"].get<std::string>();
}

std::string name_of(const Awaited& a) {
  return to_string(a.function) + " revision " + std::to_string(a.revision);
}

Result<void> wait_for(const Session& session, const Awaited& a, Time give_up,
                      const std::string& timeout) {
  const SteadyClock clock;
  const std::string what = name_of(a);
  const std::string target = session.function_path(to_string(a.function));
  for (std::string turn = "0";;) {
    SLUICE_ASSIGN(answer, session.api_raw(wire::http::verb::get,
                                          target + "?wait_ms=1000&after=" + turn, "", ""));
    if (answer.result_int() != 200)
      return refused(static_cast<int>(answer.result_int()), answer.body());
    SLUICE_ASSIGN(f, wire::parse_json(answer.body()));
    const bool decided = turn != "0";  // since the change: the loop has considered it
    const Phase phase = phase_of(f, a.revision);
    if (phase == Phase::kServes && decided) return {};
    if (phase == Phase::kReplaced)
      return Error{ErrorKind::kConflict,
                   what + " is not the newest any more: revision " + f["revision"].dump() + " is"};
    if (phase == Phase::kGivenUp) {
      const std::string failed = f["rollout_failed"];
      return Error{ErrorKind::kInternal,
                   what + " is given up: " + (failed.empty() ? what_is_in_the_way(f) : failed)};
    }
    if (clock.now() >= give_up)
      return Error{ErrorKind::kTimeout,
                   what + " does not serve yet after " + timeout + ": " + what_is_in_the_way(f)};
    turn = std::string(answer["Sluice-Turn"]);
  }
}

}  // namespace

void add_wait(CLI::App& command, WaitFlags& flags) {
  command.add_flag("--wait", flags.wait,
                   "Waits until the revision serves. Exits with 1 if it cannot start");
  command.add_option("--timeout", flags.timeout, "Longest wait; after it the exit code is 7")
      ->capture_default_str();
}

Result<Nanos> timeout_of(const WaitFlags& flags) {
  auto parsed = sluice::parse_duration(flags.timeout);
  if (!parsed.ok()) return within("--timeout", parsed.error());
  return parsed;
}

Result<void> wait_as_asked(const Session& session, const WaitFlags& flags,
                           const std::vector<Awaited>& revisions) {
  if (!flags.wait) return {};
  SLUICE_ASSIGN(timeout, timeout_of(flags));
  const Time give_up = SteadyClock().now() + timeout;
  for (const Awaited& a : revisions) {
    SLUICE_TRY(wait_for(session, a, give_up, flags.timeout));
    if (!session.json()) std::cout << name_of(a) << " serves" << std::endl;
  }
  return {};
}

}  // namespace sluice::cli
