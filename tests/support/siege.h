// The parts of the benchmark `siege`: a gateway under attack beside honest clients, the control API
// under attack, and a platform whose processes are killed. Each returns only figures. One thread
// calls them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tests/support/crowd.h"
#include "tests/support/gateway_bed.h"
#include "tests/support/open_load.h"
#include "tests/support/platform_bed.h"

namespace sluice::bench {

// ---- attacks on the gateway --------------------------------------------------------------------

struct Siege {
  std::vector<std::string> gateway;  // the program with its command
  Nanos service = Millis(5);
  Nanos lasts = Seconds(10);
  uint64_t seed = 1;
};

inline constexpr Nanos kHonestPatience = Seconds(5);

// Honest clients at 30 % of capacity, every twentieth request on a new connection.
struct Honest {
  Tally tally;
  std::vector<double> ms;  // a failure counts as kHonestPatience
  double rss_mib = 0;      // the gateway's peak
};

struct Attacked {
  Honest beside_attack, beside_busy_process;
  double attacker_cpu = 0;  // cores that the attacker used, and the busy process after it
  bool worked = false;      // the attacker tried all its connections, and sent
  std::string about;        // a description, for people
};

struct Attack {
  std::string name;
  Habit habit;
};
// Returns all attacks by a crowd, for a gateway with so many descriptors. `scale`: permille of the
// connections.
std::vector<Attack> attacks(int descriptors, int scale = 1000);
Result<Attacked> attack(const Siege& siege, const Attack& with);

// Half of the clients close their side of the connection after the request.
struct HalfClosed {
  Tally half_closed, others;
};
Result<HalfClosed> half_close(const Siege& siege);

// Spellings of the path of an inference. Each is right if it is counted as an inference and
// answered, or gets 404 and is not counted.
struct Spelling {
  std::string path;
  int status = 0;
  uint64_t counted = 0;
  bool right = false;
};
Result<std::vector<Spelling>> spell_paths(const Siege& siege);

// ---- the control API ---------------------------------------------------------------------------

struct ControlAttacked {
  double rss_before_mib = 0, rss_mib = 0;
  uint64_t opened = 0, sent_bytes = 0;
  bool alive = false;  // it answers the owner afterwards
};
// `connections` at once send 4 MiB each without a token, and return `rounds` times.
Result<ControlAttacked> attack_control(const PlatformSettings& settings, int connections,
                                       int rounds, Nanos at_most);

// ---- kills -------------------------------------------------------------------------------------

struct Kills {
  PlatformSettings platform;
  int kills = 500;
  uint64_t seed = 1;
  double rate = 40;              // honest requests a second
  Nanos patience = Seconds(60);  // for the platform to be whole again
};

struct Killed {
  Tally tally;
  int killed = 0;  // processes
  int lost_in_flight = 0, lost_beyond = 0;
  std::vector<double> whole_ms, whole_cold_ms, exec_ms;
  int never_whole = 0, leftovers = 0;
  std::vector<std::string> notes;  // how many of each kind, and the slowest recoveries
};
Result<Killed> kill_at_random(const Kills& with);

// ---- restarts ----------------------------------------------------------------------------------

struct Restarts {
  PlatformSettings platform;
  int restarts = 20;  // by `down --keep` and `up`
  double rate = 10;   // honest requests a second
  uint64_t seed = 1;
};

struct Restarted {
  Tally tally;
  std::vector<double> seconds;  // of each, until its processes answer
  int replaced = 0;             // instances that did not outlive the restarts
  int leftovers = 0;
};
Result<Restarted> restart_under_load(const Restarts& with);

}  // namespace sluice::bench
