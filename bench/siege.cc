// **siege**: honest clients' results while others attack the gateway, the control API's memory
// under attack, and a platform's losses while its processes are killed at random; training jobs
// whose workers, controller, node and checkpoints are killed, stopped and damaged at random; two
// hostile local users beside them; restarts under load.
//
// The reference of an attack is the same honest load beside a process without connections that is
// as busy as the attacker was; of hostile users, the API beside users that are only busy. The
// reference of a start without a template is the runtime alone.
//
//   bench_siege [--seconds 10] [--kills 500] [--seed 1]
//               [--only attacks|control|kills|training|hostile|restarts]
//               [--runtime PATH --model FILE.pt] [--training FOLDER] [--json FILE]
//
// `--seconds` is the length of each attack; hostile users stay sixty times as long. Without
// `--runtime` the platform runs tests/programs/fake_runtime.cc, whose model takes 300 ms to load.
// `--training` is the folder of tools/make_training; --kills counts its events, too, and a restart
// for every 25.
#include "tests/support/siege.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "bench/report.h"
#include "tests/support/siege_training.h"

namespace sluice::bench {
namespace {

Row counted(Row row, int n) {
  row.n = std::max(n, 1);
  return row;
}

std::string told(const Tally& t) {
  return "sent " + std::to_string(t.sent) + ", right " + std::to_string(t.right) + ", wrong " +
         std::to_string(t.wrong) + ", 429 or 503 " + std::to_string(t.refused) + ", other errors " +
         std::to_string(t.errors) + ", broken " + std::to_string(t.broken) + ", timed out " +
         std::to_string(t.timed_out);
}

void add(Report& report, const std::string& name, const Attacked& a) {
  const Honest &ours = a.beside_attack, &reference = a.beside_busy_process;
  const Samples here = summarise(ours.ms), there = summarise(reference.ms);
  const char* beside = "busy process";
  report.add(
      counted(Row(name + ": honest failed", ours.tally.failed(), "").at_most(0), ours.tally.sent));
  report.add(Row(name + ": honest p50", here.p50, "ms").of(here).beside(beside, there.p50));
  report.add(Row(name + ": honest p99", here.p99, "ms")
                 .of(here)
                 .beside(beside, there.p99)
                 .ratio_at_most(2));
  report.add(Row(name + ": gateway's peak RSS", ours.rss_mib, "MiB").at_most(512));
  report.note(name + ": " + a.about + "; honest " + told(ours.tally));
  if (!a.worked) report.fail(name + ": the attacker did no work");
  if (ours.tally.wrong > 0) report.fail(name + ": wrong answers");
  if (reference.tally.right * 100 < reference.tally.sent * 99)
    report.fail(name + ": the reference failed: " + told(reference.tally));
}

void attack_all(Report& report, const Siege& siege) {
  const int descriptors = descriptors_of_programs();
  report.note("a gateway may have " + std::to_string(descriptors) + " descriptors");
  for (const Attack& with : attacks(descriptors)) {
    const Result<Attacked> a = attack(siege, with);
    if (!a.ok()) return report.fail(with.name + ": " + a.error().message);
    add(report, with.name, *a);
  }
  const Result<HalfClosed> h = half_close(siege);
  if (!h.ok()) return report.fail("half-closed: " + h.error().message);
  report.add(
      counted(Row("half-closed: without a right answer", h->half_closed.failed(), "").at_most(0),
              h->half_closed.sent));
  report.add(counted(Row("half-closed: honest failed", h->others.failed(), "").at_most(0),
                     h->others.sent));
  report.note("half-closed: " + told(h->half_closed));
  const Result<std::vector<Spelling>> paths = spell_paths(siege);
  if (!paths.ok()) return report.fail("paths: " + paths.error().message);
  int wrong = 0;
  for (const Spelling& s : *paths) {
    wrong += !s.right;
    report.note("paths: " + s.path + " " + std::to_string(s.status) + ", counted " +
                std::to_string(s.counted) + (s.right ? "" : ": WRONG"));
  }
  report.add(counted(Row("paths: neither counted nor 404", wrong, "").at_most(0),
                     static_cast<int>(paths->size())));
}

void attack_control(Report& report, const PlatformSettings& platform, Nanos at_most) {
  const Result<ControlAttacked> c = attack_control(platform, 400, 10, at_most);
  if (!c.ok()) return report.fail("control: " + c.error().message);
  report.add(Row("control: peak RSS under bodies without token", c->rss_mib, "MiB")
                 .beside("before", c->rss_before_mib)
                 .at_most(256));
  report.note("control: " + std::to_string(c->opened) + " connections opened, sent " +
              std::to_string(c->sent_bytes >> 20) + " MiB; " +
              (c->alive ? "alive" : "DEAD or deaf") + " afterwards");
  if (c->opened < 400) report.fail("control: the attacker did not open its connections");
  if (!c->alive) report.fail("control: it does not answer its owner any more");
}

void kill(Report& report, const Kills& with) {
  const Result<Killed> k = kill_at_random(with);
  if (!k.ok()) return report.fail("kills: " + k.error().message);
  const Tally& t = k->tally;
  const Samples whole = summarise(k->whole_ms), cold = summarise(k->whole_cold_ms),
                exec = summarise(k->exec_ms);
  report.add(
      counted(Row("kills: lost beyond what was killed", k->lost_beyond, "").at_most(0), t.sent));
  report.add(
      counted(Row("kills: lost in flight on what was killed", k->lost_in_flight, ""), t.sent));
  report.add(counted(Row("kills: wrong answers", t.wrong, "").at_most(0), t.sent));
  report.add(Row("kills: whole again p50", whole.p50, "ms").of(whole));
  report.add(Row("kills: whole again p99", whole.p99, "ms").of(whole).at_most(1000));
  if (cold.n > 0) {
    report.add(Row("kills: whole again without template p50", cold.p50, "ms")
                   .of(cold)
                   .beside("plain exec", exec.p50)
                   .ratio_at_most(1.5));
    report.add(Row("kills: whole again without template p99", cold.p99, "ms")
                   .of(cold)
                   .beside("plain exec", exec.p50));
  }
  report.add(counted(Row("kills: never whole again", k->never_whole, "").at_most(0), k->killed));
  report.add(counted(Row("kills: left over processes", k->leftovers, "").at_most(0), k->killed));
  report.note("kills: " + std::to_string(k->killed) + " processes; " + told(t));
  for (const std::string& line : k->notes) report.note("kills: " + line);
  if (t.right == 0 || whole.n == 0)
    report.fail("kills: nothing was answered, or nothing recovered");
}

void add_hostile(Report& report, const TrainingSieged& t) {
  const Samples here = summarise(t.api_ms), there = summarise(t.api_busy_ms);
  const Hostilities& h = t.hostilities;
  report.add(counted(Row("hostile: read, written, made or signalled of others",
                         static_cast<double>(h.taken.size()), "")
                         .at_most(0),
                     static_cast<int>(h.tried)));
  report.add(Row("hostile: API p50", here.p50, "ms")
                 .of(here)
                 .beside("busy users", there.p50)
                 .ratio_at_most(2));
  report.add(Row("hostile: API p99", here.p99, "ms").of(here).beside("busy users", there.p99));
  report.add(Row("hostile: control's peak RSS", t.control_mib, "MiB")
                 .beside("busy users", t.control_busy_mib)
                 .at_most(256));
  report.note("hostile: " + std::to_string(h.tried) + " files and processes tried, " +
              std::to_string(h.connections) + " connections, " +
              std::to_string(h.sent_bytes >> 20) + " MiB sent");
  for (const std::string& what : h.taken) report.note("hostile: " + what);
  if (h.tried < 1000 || h.connections < 1000) report.fail("hostile: the users did no work");
}

void besiege(Report& report, const TrainingSiege& with) {
  const Result<TrainingSieged> t = besiege_training(with);
  if (!t.ok()) return report.fail("training: " + t.error().message);
  if (!with.hostile.empty()) add_hostile(report, *t);
  const int jobs = t->finished + t->paused + t->failed;
  report.add(
      counted(Row("training: jobs with a sample lost or used twice", t->wrong, "").at_most(0),
              t->finished));
  report.add(counted(
      Row("training: neither finished nor paused with a reason", t->failed, "").at_most(0), jobs));
  report.add(counted(Row("training: longest silence of a job", t->longest_silence, "s").at_most(60),
                     t->events));
  report.add(counted(Row("training: left over processes", t->leftovers, "").at_most(0), t->events));
  report.note("training: " + std::to_string(t->events) + " events, " + std::to_string(t->finished) +
              " jobs finished, " + std::to_string(t->paused) + " pauses for a trouble");
  for (const std::string& line : t->notes) report.note("training: " + line);
  if (t->finished == 0) report.fail("training: no job has finished");
}

void restart(Report& report, const Restarts& with) {
  const Result<Restarted> r = restart_under_load(with);
  if (!r.ok()) return report.fail("restarts: " + r.error().message);
  const Samples took = summarise(r->seconds);
  report.add(
      counted(Row("restarts: refused or failed", r->tally.failed(), "").at_most(0), r->tally.sent));
  report.add(counted(Row("restarts: instances replaced", r->replaced, "").at_most(0), took.n));
  report.add(counted(Row("restarts: left over processes", r->leftovers, "").at_most(0), took.n));
  report.add(Row("restarts: until all processes answer", took.p50, "s").of(took));
  report.note("restarts: " + told(r->tally));
  if (r->tally.right == 0) report.fail("restarts: nothing was answered");
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice;
  using namespace sluice::bench;
  Report report("siege", argc, argv);
  const std::string sluice = beside_us("sluice");
  const std::string only = text_argument(argc, argv, "--only");
  const auto seed = static_cast<uint64_t>(int_argument(argc, argv, "--seed", 1));
  const int kills = int_argument(argc, argv, "--kills", 500);
  const Nanos lasts = Seconds(int_argument(argc, argv, "--seconds", 10));
  const PlatformSettings platform{
      .sluice = sluice,
      .runtime = text_argument(argc, argv, "--runtime", beside_us("fake_runtime")),
      .model = text_argument(argc, argv, "--model")};
  report.note("seed " + std::to_string(seed) + ", " +
              (platform.model.empty() ? "fake runtime" : platform.runtime));
  if (only.empty() || only == "attacks")
    attack_all(report, {.gateway = {sluice, "gateway"}, .lasts = lasts, .seed = seed});
  if (only.empty() || only == "control") attack_control(report, platform, 6 * lasts);
  if (only.empty() || only == "kills")
    kill(report, {.platform = platform, .kills = kills, .seed = seed});
  const char* home = std::getenv("HOME");
  TrainingSiege training{
      .platform = platform,
      .demonstrations =
          text_argument(argc, argv, "--training",
                        std::string(home != nullptr ? home : "/root") + "/.cache/sluice/training"),
      .script = SLUICE_PROGRAMS "/elastic_ledger.py",
      .events = kills,
      .seed = seed};
  if (only.empty() || only == "training") besiege(report, training);
  training.hostile = SLUICE_PROGRAMS "/hostile_user.py";
  training.hostile_lasts = 60 * lasts;
  training.events = 0;
  if (only.empty() || only == "hostile") besiege(report, training);
  if (only.empty() || only == "restarts")
    restart(report, {.platform = platform, .restarts = std::max(kills / 25, 1), .seed = seed});
  return report.finish();
}
