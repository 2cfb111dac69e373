#include "control/store.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "base/log.h"
#include "wire/json.h"

namespace sluice::control {
namespace {

using nlohmann::json;

constexpr int kSchema = 1;
constexpr int kKeptDecisions = 10'000;

// Each step takes the schema from its index to the next. Steps are never changed, only added.
const std::vector<std::vector<const char*>> kMigrations{
    {
        "CREATE TABLE functions (name TEXT PRIMARY KEY, newest INTEGER NOT NULL, serving INTEGER "
        "NOT NULL)",
        "CREATE TABLE revisions (function TEXT NOT NULL, number INTEGER NOT NULL, spec TEXT NOT "
        "NULL, created INTEGER NOT NULL, PRIMARY KEY (function, number))",
        "CREATE TABLE instances (id TEXT PRIMARY KEY, instance TEXT NOT NULL, boot_id TEXT NOT "
        "NULL, pid INTEGER NOT NULL, start_time INTEGER NOT NULL)",
        "CREATE TABLE decisions (number INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, "
        "function TEXT NOT NULL, action TEXT NOT NULL, subject TEXT NOT NULL, detail TEXT NOT "
        "NULL, reason TEXT NOT NULL, fault TEXT NOT NULL)",
        "CREATE INDEX decisions_of ON decisions (function, number)",
        "CREATE TABLE profiles (model TEXT PRIMARY KEY, profile TEXT NOT NULL)",
        "CREATE TABLE accounts (key TEXT PRIMARY KEY, account TEXT NOT NULL)",
        "CREATE TABLE rates (function TEXT NOT NULL, second INTEGER NOT NULL, rate REAL NOT NULL, "
        "queued INTEGER NOT NULL, in_flight INTEGER NOT NULL, violations INTEGER NOT NULL, PRIMARY "
        "KEY (function, second)) WITHOUT ROWID",
    },
};

// null: it is no JSON.
json parsed(const std::string& text) {
  json j = json::parse(text, nullptr, false);
  return j.is_discarded() ? json() : j;
}

constexpr const char* kRefused =
    "Nothing was changed; instances and gateway go on with what they have. Stop the platform and "
    "put a copy of the file back; or move it away to begin without any function, profile, account "
    "or decision.";

// An empty file is no new one: what was in it is lost.
bool emptied(const std::string& path) {
  struct stat file {};
  return stat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode) && file.st_size == 0;
}

// The number, or that of the newest revision there is.
int readable(const StoredFunction& f, int number, const char* which) {
  if (std::ranges::any_of(f.revisions, [&](const Revision& r) { return r.number == number; }))
    return number;
  const int instead = f.revisions.back().number;
  log::error(
      "store: {}: its {} revision, {}, cannot be read: revision {} takes its place. Apply "
      "the function's file again.",
      to_string(f.name), which, number, instead);
  return instead;
}

}  // namespace

Result<Store> Store::open(const std::string& path) {
  if (emptied(path))
    return Error{
        ErrorKind::kInternal,
        path + ": is an empty file: all that the control loop had stored is lost. " + kRefused};
  const bool existed = std::filesystem::exists(path);
  auto db = Database::open(path);
  if (!db.ok()) {
    if (!existed) std::filesystem::remove(path);  // on a full disk: an empty file would be refused
    return Error{db.error().kind, db.error().message + ". " + kRefused};
  }
  Store store(std::move(*db));
  const auto migrated = store.migrate();
  if (migrated.ok()) return store;
  if (!existed) std::filesystem::remove(path);
  return within(path, migrated.error());
}

Result<void> Store::migrate() {
  int64_t version = 0;
  SLUICE_TRY(db_.each("PRAGMA user_version", {}, [&](const Row& r) { version = r.integer(0); }));
  if (version > kSchema)
    return Error{ErrorKind::kConflict, "its schema is version " + std::to_string(version) +
                                           ", this sluice knows up to " + std::to_string(kSchema) +
                                           ": use the newer sluice"};
  for (; version < kSchema; ++version)
    SLUICE_TRY(db_.transaction([&]() -> Result<void> {
      for (const char* sql : kMigrations[static_cast<size_t>(version)]) SLUICE_TRY(db_.run(sql));
      return db_.run("PRAGMA user_version = " + std::to_string(version + 1));
    }));
  return {};
}

Result<std::vector<StoredFunction>> Store::functions() {
  std::map<std::string, StoredFunction> found;
  SLUICE_TRY(db_.each("SELECT name, newest, serving FROM functions", {}, [&](const Row& r) {
    found[r.text(0)] = {function_name(r.text(0)),
                        static_cast<int>(r.integer(1)),
                        static_cast<int>(r.integer(2)),
                        {},
                        true};
  }));
  SLUICE_TRY(db_.each(
      "SELECT function, number, spec, created FROM revisions ORDER BY function, number", {},
      [&](const Row& r) {
        const auto f = found.find(r.text(0));
        const auto spec = wire::function_spec_from(parsed(r.text(2)));
        if (!spec.ok())
          log::error("store: {}: revision {} cannot be read: {}. It stays in the file.", r.text(0),
                     r.integer(1), spec.error().message);
        if (f == found.end()) return;
        if (spec.ok())
          f->second.revisions.push_back(
              {function_name(r.text(0)), static_cast<int>(r.integer(1)), *spec, r.integer(3)});
        else
          f->second.complete = false;
      }));
  std::vector<StoredFunction> out;
  for (auto& [name, f] : found) {
    if (f.revisions.empty()) {
      log::error(
          "store: {}: none of its revisions can be read, so it cannot be called. Its "
          "instances are left as they are. Apply its file again.",
          name);
    } else {
      f.newest = readable(f, f.newest, "newest");
      f.serving = readable(f, f.serving, "serving");
    }
    out.push_back(std::move(f));
  }
  return out;
}

Result<void> Store::add_revision(const Revision& r, int serving) {
  const std::string name = to_string(r.function);
  return db_.transaction([&]() -> Result<void> {
    // One of that number is there only if it could not be read.
    SLUICE_TRY(db_.run("INSERT OR REPLACE INTO revisions VALUES (?,?,?,?)",
                       {name, int64_t{r.number}, wire::to_json(r.spec).dump(), r.created}));
    return db_.run("INSERT OR REPLACE INTO functions VALUES (?,?,?)",
                   {name, int64_t{r.number}, int64_t{serving}});
  });
}

Result<void> Store::replace_spec(const Revision& r) {
  return db_.run("UPDATE revisions SET spec=? WHERE function=? AND number=?",
                 {wire::to_json(r.spec).dump(), to_string(r.function), int64_t{r.number}});
}

Result<void> Store::forget_revisions(const FunctionName& f, int oldest, int serving) {
  return db_.run("DELETE FROM revisions WHERE function=? AND number<? AND number<>?",
                 {to_string(f), int64_t{oldest}, int64_t{serving}});
}

Result<void> Store::set_revisions(const FunctionName& f, int newest, int serving) {
  return db_.run("UPDATE functions SET newest=?, serving=? WHERE name=?",
                 {int64_t{newest}, int64_t{serving}, to_string(f)});
}

Result<void> Store::remove_function(const FunctionName& f) {
  return db_.transaction([&]() -> Result<void> {
    for (const char* sql :
         {"DELETE FROM functions WHERE name=?", "DELETE FROM revisions WHERE function=?",
          "DELETE FROM rates WHERE function=?",
          "DELETE FROM accounts WHERE key IN (?1, ?1 || ' traffic')"})
      SLUICE_TRY(db_.run(sql, {to_string(f)}));
    return {};
  });
}

Result<void> Store::save_instances(const std::vector<StoredInstance>& all) {
  return db_.transaction([&]() -> Result<void> {
    SLUICE_TRY(db_.run("DELETE FROM instances"));
    for (const StoredInstance& i : all)
      SLUICE_TRY(db_.run("INSERT INTO instances VALUES (?,?,?,?,?)",
                         {i.instance.id, wire::to_json(i.instance).dump(), i.boot_id, i.pid,
                          static_cast<int64_t>(i.start_time)}));
    return {};
  });
}

Result<std::vector<StoredInstance>> Store::instances() {
  std::vector<StoredInstance> out;
  SLUICE_TRY(db_.each(
      "SELECT instance, boot_id, pid, start_time FROM instances ORDER BY id", {},
      [&](const Row& r) {
        if (auto instance = wire::instance_from(parsed(r.text(0))); instance.ok())
          out.push_back({*instance, r.text(1), r.integer(2), static_cast<uint64_t>(r.integer(3))});
      }));
  return out;
}

Result<int64_t> Store::add_decision(const Decision& d) {
  SLUICE_TRY(
      db_.run("INSERT INTO decisions (at, function, action, subject, detail, reason, fault) VALUES "
              "(?,?,?,?,?,?,?)",
              {d.at, to_string(d.function), d.action, d.subject, d.detail.dump(),
               wire::to_json(d.reason).dump(), d.fault}));
  int64_t number = 0;
  SLUICE_TRY(
      db_.each("SELECT last_insert_rowid()", {}, [&](const Row& r) { number = r.integer(0); }));
  if (number % 100 == 0)
    SLUICE_TRY(db_.run("DELETE FROM decisions WHERE number <= ?", {number - kKeptDecisions}));
  return number;
}

Result<std::vector<Decision>> Store::decisions(const std::optional<FunctionName>& f, int limit) {
  std::vector<Decision> out;
  const std::string filter = f ? " WHERE function = ?" : "";
  std::vector<SqlValue> values;
  if (f) values.emplace_back(to_string(*f));
  values.emplace_back(int64_t{limit});
  SLUICE_TRY(db_.each(
      "SELECT number, at, function, action, subject, detail, reason, fault FROM decisions" +
          filter + " ORDER BY number DESC LIMIT ?",
      values, [&](const Row& r) {
        Decision d{r.integer(0), r.integer(1), function_name(r.text(2)),
                   r.text(3),    r.text(4),    parsed(r.text(5)),
                   {},           r.text(7)};
        if (auto reason = wire::reason_from(parsed(r.text(6))); reason.ok()) d.reason = *reason;
        out.push_back(std::move(d));
      }));
  return out;
}

Result<Reason> Store::last_reason(const std::string& subject) {
  Reason last;
  SLUICE_TRY(db_.each("SELECT reason FROM decisions WHERE subject = ? ORDER BY number DESC LIMIT 1",
                      {subject}, [&](const Row& r) {
                        if (auto reason = wire::reason_from(parsed(r.text(0))); reason.ok())
                          last = *reason;
                      }));
  return last;
}

Result<void> Store::save_profile(const std::string& model_path, const predict::Profile& profile) {
  return db_.run("INSERT OR REPLACE INTO profiles VALUES (?,?)",
                 {model_path, to_json(profile).dump()});
}

Result<std::map<std::string, predict::Profile>> Store::profiles() {
  std::map<std::string, predict::Profile> out;
  SLUICE_TRY(db_.each("SELECT model, profile FROM profiles", {}, [&](const Row& r) {
    if (auto profile = profile_from(parsed(r.text(1))); profile.ok())
      out[r.text(0)] = *profile;
    else
      log::error("store: the profile of {} cannot be read: {}. Measure it again: sluice profile.",
                 r.text(0), profile.error().message);
  }));
  return out;
}

Result<void> Store::save_account(const std::string& key, const json& account) {
  return db_.run("INSERT OR REPLACE INTO accounts VALUES (?,?)", {key, account.dump()});
}

Result<std::map<std::string, json>> Store::accounts() {
  std::map<std::string, json> out;
  SLUICE_TRY(db_.each("SELECT key, account FROM accounts", {}, [&](const Row& r) {
    json account = parsed(r.text(1));
    if (account.is_object())
      out[r.text(0)] = std::move(account);
    else
      log::error(
          "store: the account of '{}' cannot be read: its counters "
          "begin at zero.",
          r.text(0));
  }));
  return out;
}

Result<void> Store::add_rates(const std::vector<RateSample>& samples) {
  return db_.transaction([&]() -> Result<void> {
    if (samples.empty()) return {};
    if (const int64_t now = samples.front().second; now % 60 == 0)
      SLUICE_TRY(db_.run("DELETE FROM rates WHERE second < ?", {now - 3600}));
    for (const RateSample& s : samples)
      SLUICE_TRY(db_.run("INSERT OR REPLACE INTO rates VALUES (?,?,?,?,?,?)",
                         {to_string(s.function), s.second, s.rate, int64_t{s.queued},
                          int64_t{s.in_flight}, static_cast<int64_t>(s.violations)}));
    return {};
  });
}

Result<std::vector<RateSample>> Store::rates(const FunctionName& f, int64_t since) {
  std::vector<RateSample> out;
  SLUICE_TRY(db_.each(
      "SELECT second, rate, queued, in_flight, violations FROM rates WHERE function=? AND "
      "second>=? ORDER BY second",
      {to_string(f), since}, [&](const Row& r) {
        out.push_back({f, r.integer(0), r.number(1), static_cast<int>(r.integer(2)),
                       static_cast<int>(r.integer(3)), static_cast<uint64_t>(r.integer(4))});
      }));
  return out;
}

json to_json(const predict::Profile& p) {
  json points = json::array();
  for (const predict::ProfilePoint& q : p.points)
    points.push_back({{"batch", q.at.batch},
                      {"sm", q.at.sm.permille},
                      {"quota", q.at.quota.permille},
                      {"latency_p50_us", q.latency_p50.count() / 1000},
                      {"latency_p95_us", q.latency_p95.count() / 1000},
                      {"throughput", q.throughput}});
  return {{"function", to_string(p.function)},
          {"revision", p.revision},
          {"memory", p.memory},
          {"points", points}};
}

Result<predict::Profile> profile_from(const json& j) {
  wire::Fields f(j, "profile");
  predict::Profile p{.function = function_name(f.text("function")),
                     .revision = static_cast<int>(f.integer("revision", 0, 0, 1'000'000'000))};
  p.memory = f.integer("memory", 0, 0, INT64_MAX);
  for (const json& item : f.list("points")) {
    wire::Fields q(item, "point");
    predict::ProfilePoint point;
    point.at.batch = static_cast<int>(q.integer("batch", 1, 1, 1024));
    point.at.sm = {static_cast<int>(q.integer("sm", 1000, 1, 1000))};
    point.at.quota = {static_cast<int>(q.integer("quota", 1000, 1, 1000))};
    point.latency_p50 = Micros(q.integer("latency_p50_us", 0, 1, INT64_MAX / 1000));
    point.latency_p95 = Micros(q.integer("latency_p95_us", 0, 0, INT64_MAX / 1000));
    point.throughput = q.number("throughput", 0, 0, 1e12);
    SLUICE_ASSIGN(checked, q.finish(point));
    p.points.push_back(checked);
  }
  return f.finish(p);
}

}  // namespace sluice::control
