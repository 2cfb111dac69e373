// The journal's half of the store.
#include <algorithm>

#include "base/log.h"
#include "control/local/store.h"
#include "wire/json/json.h"

namespace sluice::control {
namespace {

using nlohmann::json;

constexpr int kKeptDecisions = 10'000;

// An unreadable minute has 0.
ArrivalHistory::Hour minutes_from(const json& j) {
  ArrivalHistory::Hour minutes{};
  for (size_t m = 0; j.is_array() && m < std::min(minutes.size(), j.size()); ++m)
    if (j[m].is_number_unsigned()) minutes[m] = j[m].get<uint32_t>();
  return minutes;
}

}  // namespace

Result<void> Store::write(JournalEntry& entry) {
  return db_.transaction([&]() -> Result<void> {
    for (Decision& d : entry.decisions) SLUICE_TRY(add_decision(d));
    SLUICE_TRY(add_rates(entry.rates));
    SLUICE_TRY(add_arrivals(entry.arrivals));
    for (const auto& [key, account] : entry.accounts)
      SLUICE_TRY(
          db_.run("INSERT OR REPLACE INTO accounts VALUES (?,?)", {key, wire::text_of(account)}));
    for (const InstanceId& id : entry.ended)
      SLUICE_TRY(db_.run("DELETE FROM instances WHERE id=?", {id}));
    for (const StoredInstance& i : entry.instances)
      SLUICE_TRY(db_.run("INSERT OR REPLACE INTO instances VALUES (?,?,?,?,?)",
                         {i.instance.id, wire::text_of(wire::to_json(i.instance)), i.boot_id, i.pid,
                          static_cast<int64_t>(i.start_time)}));
    return {};
  });
}

Result<void> Store::forget(const FunctionName& f) {
  return db_.transaction([&]() -> Result<void> {
    SLUICE_TRY(db_.run("DELETE FROM rates WHERE function=?", {to_string(f)}));
    SLUICE_TRY(db_.run("DELETE FROM arrivals WHERE function=?", {to_string(f)}));
    return db_.run("DELETE FROM accounts WHERE key IN (?1, ?1 || ' traffic')", {to_string(f)});
  });
}

Result<std::vector<StoredInstance>> Store::instances() {
  std::vector<StoredInstance> out;
  SLUICE_TRY(db_.each(
      "SELECT instance, boot_id, pid, start_time FROM instances ORDER BY id", {},
      [&](const Row& r) {
        if (auto instance = wire::instance_from(r.json(0)); instance.ok())
          out.push_back({*instance, r.text(1), r.integer(2), static_cast<uint64_t>(r.integer(3))});
      }));
  return out;
}

Result<void> Store::add_decision(Decision& d) {
  SLUICE_TRY(
      db_.run("INSERT INTO decisions (at, function, action, subject, detail, reason, fault) VALUES "
              "(?,?,?,?,?,?,?)",
              {d.at, to_string(d.function), d.action, d.subject, wire::text_of(d.detail),
               wire::text_of(wire::to_json(d.reason)), d.fault}));
  SLUICE_TRY(
      db_.each("SELECT last_insert_rowid()", {}, [&](const Row& r) { d.number = r.integer(0); }));
  if (d.number % 100 == 0)
    SLUICE_TRY(db_.run("DELETE FROM decisions WHERE number <= ?", {d.number - kKeptDecisions}));
  return {};
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
                   r.text(3),    r.text(4),    r.json(5),
                   {},           r.text(7)};
        if (auto reason = wire::reason_from(r.json(6)); reason.ok()) d.reason = *reason;
        out.push_back(std::move(d));
      }));
  return out;
}

Result<std::map<std::string, Reason>> Store::notices() {
  std::map<std::string, Reason> out;
  SLUICE_TRY(
      db_.each("SELECT subject, reason, MAX(number) FROM decisions WHERE action IN ('notice', "
               "'drain', 'undrain') GROUP BY subject",
               {}, [&](const Row& r) {
                 if (auto reason = wire::reason_from(r.json(1)); reason.ok())
                   out[r.text(0)] = *reason;
               }));
  return out;
}

Result<Accounts> Store::accounts() {
  Accounts out;
  SLUICE_TRY(db_.each("SELECT key, account FROM accounts", {}, [&](const Row& r) {
    json account = r.json(1);
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
  if (samples.empty()) return {};
  if (const int64_t now = samples.front().second; now % 60 == 0)
    SLUICE_TRY(db_.run("DELETE FROM rates WHERE second < ?", {now - 3600}));
  for (const RateSample& s : samples)
    SLUICE_TRY(db_.run("INSERT OR REPLACE INTO rates VALUES (?,?,?,?,?,?)",
                       {to_string(s.function), s.second, s.rate, int64_t{s.queued},
                        int64_t{s.in_flight}, static_cast<int64_t>(s.violations)}));
  return {};
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

Result<void> Store::add_arrivals(const std::vector<ArrivalHour>& hours) {
  for (const ArrivalHour& h : hours) {
    SLUICE_TRY(db_.run("DELETE FROM arrivals WHERE function=? AND hour<?",
                       {to_string(h.function), h.hour - ArrivalHistory::kHours}));
    SLUICE_TRY(db_.run("INSERT OR REPLACE INTO arrivals VALUES (?,?,?)",
                       {to_string(h.function), h.hour, wire::text_of(h.arrivals)}));
  }
  return {};
}

Result<std::vector<ArrivalHour>> Store::arrivals(const FunctionName& f) {
  std::vector<ArrivalHour> out;
  SLUICE_TRY(db_.each("SELECT hour, minutes FROM arrivals WHERE function=? ORDER BY hour",
                      {to_string(f)}, [&](const Row& r) {
                        const int64_t hour = r.integer(0);
                        if (hour >= 0 && hour <= kLatest / 3'600'000)
                          out.push_back({f, hour, minutes_from(r.json(1))});
                      }));
  return out;
}

}  // namespace sluice::control
