#include "control/local/store.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "base/log.h"
#include "wire/json/function_json.h"

namespace sluice::control {
namespace {

using nlohmann::json;

constexpr int kSchema = 4;

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
    // A profile belongs to a model's content and a type of device. Earlier ones keep the path, and
    // have no type.
    {
        "ALTER TABLE profiles RENAME TO profiles_by_path",
        "CREATE TABLE profiles (model TEXT NOT NULL, device_type TEXT NOT NULL, profile TEXT NOT "
        "NULL, PRIMARY KEY (model, device_type))",
        "INSERT INTO profiles SELECT model, '', profile FROM profiles_by_path",
        "DROP TABLE profiles_by_path",
    },
    {
        "CREATE TABLE arrivals (function TEXT NOT NULL, hour INTEGER NOT NULL, minutes TEXT NOT "
        "NULL, PRIMARY KEY (function, hour)) WITHOUT ROWID",
    },
    // Of a function without a row, what served before is not known.
    {
        "CREATE TABLE IF NOT EXISTS served (function TEXT PRIMARY KEY, revisions TEXT NOT NULL)",
    },
};

constexpr uint64_t kHighestRevision = 1'000'000'000;

constexpr const char* kRefused =
    "Nothing was changed; instances and gateway go on with what they have. Stop the platform and "
    "put a copy of the file back; or move it away to begin without any function, profile, account "
    "or decision.";

// An empty file is not a new one: its content was lost.
bool emptied(const std::string& path) {
  struct stat file {};
  return stat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode) && file.st_size == 0;
}

// Returns 0 for what is no number of a revision.
int number_in(const Row& r, int column) {
  const auto n = static_cast<uint64_t>(r.integer(column));
  return n <= kHighestRevision ? static_cast<int>(n) : 0;
}

// An unreadable history is one that is not known.
ServingHistory history_from(const json& j) {
  ServingHistory served;
  if (!j.is_array() || j.size() > kMostServed) return {kNotKnown};
  for (const json& n : j) {
    const bool is_number = n.is_number_unsigned() && n.get<uint64_t>() <= kHighestRevision;
    served.push_back(is_number ? n.get<int>() : kNotKnown);
  }
  return served;
}

// Returns the number, or that of the newest readable revision.
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

Result<Store> Store::open_read_only(const std::string& path) {
  SLUICE_ASSIGN(db, Database::open_read_only(path));
  Store store(std::move(db));
  SLUICE_ASSIGN(version, store.version());
  if (version == kSchema) return store;
  return Error{ErrorKind::kInvalid,
               path + (version == 0 ? std::string(": is no platform's control.db")
                                    : ": its schema is version " + std::to_string(version) +
                                          ", this sluice reads " + std::to_string(kSchema) +
                                          (version < kSchema ? ": `sluice up` takes it there"
                                                             : ": use the newer sluice"))};
}

Result<int64_t> Store::version() {
  int64_t version = 0;
  SLUICE_TRY(db_.each("PRAGMA user_version", {}, [&](const Row& r) { version = r.integer(0); }));
  return version;
}

Result<void> Store::migrate() {
  SLUICE_ASSIGN(version, this->version());
  if (version < 0 || version > kSchema)
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
  SLUICE_TRY(db_.each(
      "SELECT name, newest, serving, revisions FROM functions LEFT JOIN served ON function=name",
      {}, [&](const Row& r) {
        const FunctionName name = function_name(r.text(0));
        if (to_string(name) != r.text(0))
          return log::error("store: '{}' is no function's name. It stays in the file.", r.text(0));
        found[r.text(0)] = {.name = name,
                            .newest = number_in(r, 1),
                            .serving = number_in(r, 2),
                            .served = history_from(r.json(3))};
      }));
  SLUICE_TRY(
      db_.each("SELECT function, number, spec, created FROM revisions ORDER BY function, number",
               {}, [&](const Row& r) {
                 const auto f = found.find(r.text(0));
                 const auto spec = wire::function_spec_from(r.json(2));
                 if (!spec.ok())
                   log::error("store: {}: revision {} cannot be read: {}. It stays in the file.",
                              r.text(0), r.integer(1), spec.error().message);
                 if (f == found.end()) return;
                 const int number = number_in(r, 1);
                 f->second.last = std::max(f->second.last, number);
                 if (spec.ok() && number > 0)
                   f->second.revisions.push_back({f->second.name, number, *spec,
                                                  std::clamp<int64_t>(r.integer(3), 0, kLatest)});
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
    // An existing one of that number could not be read.
    SLUICE_TRY(db_.run("INSERT OR REPLACE INTO revisions VALUES (?,?,?,?)",
                       {name, int64_t{r.number}, wire::text_of(wire::to_json(r.spec)), r.created}));
    SLUICE_TRY(
        db_.run("INSERT OR REPLACE INTO served SELECT ?1, '[]' WHERE NOT EXISTS (SELECT 1 FROM "
                "functions WHERE name=?1)",
                {name}));
    return db_.run("INSERT OR REPLACE INTO functions VALUES (?,?,?)",
                   {name, int64_t{r.number}, int64_t{serving}});
  });
}

Result<void> Store::replace_spec(const Revision& r) {
  return db_.run("UPDATE revisions SET spec=? WHERE function=? AND number=?",
                 {wire::text_of(wire::to_json(r.spec)), to_string(r.function), int64_t{r.number}});
}

Result<void> Store::forget_revisions(const FunctionName& f, int oldest, int serving) {
  return db_.run("DELETE FROM revisions WHERE function=? AND number<? AND number<>?",
                 {to_string(f), int64_t{oldest}, int64_t{serving}});
}

Result<void> Store::set_revisions(const FunctionName& f, int newest, int serving,
                                  const ServingHistory& served) {
  return db_.transaction([&]() -> Result<void> {
    SLUICE_TRY(db_.run("UPDATE functions SET newest=?, serving=? WHERE name=?",
                       {int64_t{newest}, int64_t{serving}, to_string(f)}));
    return db_.run("INSERT OR REPLACE INTO served SELECT name, ? FROM functions WHERE name=?",
                   {wire::text_of(served), to_string(f)});
  });
}

Result<void> Store::remove_function(const FunctionName& f) {
  return db_.transaction([&]() -> Result<void> {
    SLUICE_TRY(db_.run("DELETE FROM functions WHERE name=?", {to_string(f)}));
    SLUICE_TRY(db_.run("DELETE FROM served WHERE function=?", {to_string(f)}));
    return db_.run("DELETE FROM revisions WHERE function=?", {to_string(f)});
  });
}

Result<void> Store::save_profile(const Profile& p) {
  return db_.transaction([&]() -> Result<void> {
    if (!p.content.empty())
      SLUICE_TRY(db_.run("DELETE FROM profiles WHERE model=? AND device_type IN ('', ?)",
                         {p.model, p.device.name}));
    return db_.run("INSERT OR REPLACE INTO profiles VALUES (?,?,?)",
                   {p.name(), p.device.name, wire::text_of(to_json(p))});
  });
}

Result<Profiles> Store::profiles() {
  Profiles out;
  SLUICE_TRY(db_.each("SELECT model, profile FROM profiles", {}, [&](const Row& r) {
    json j = r.json(1);
    if (j.is_object() && !j.contains("model")) j["model"] = r.text(0);  // of schema 1
    if (auto profile = profile_from(j); profile.ok())
      out.set(std::move(*profile));
    else
      log::error("store: the profile of {} cannot be read: {}. Measure it again: sluice profile.",
                 r.text(0), profile.error().message);
  }));
  return out;
}

}  // namespace sluice::control
