// A store in which one value is not what the loop wrote. Whatever it is, the loop starts and ticks,
// lists what it has, and serves every function whose rows are sound; one that cannot be is set
// apart and named.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <filesystem>
#include <functional>
#include <set>

#include "control/api/listings.h"
#include "control/api/metrics.h"
#include "control/local/store.h"
#include "control/requests.h"
#include "predict/profile_table.h"
#include "tests/support/archive.h"
#include "tests/support/fake_cluster.h"
#include "tests/support/folder.h"

namespace sluice::control {
namespace {

using nlohmann::json;

const FunctionName kGood{.name = "good"}, kBad{.name = "bad"}, kJob{.name = "job"};

// A value of a column, and how to find its row.
struct Place {
  std::string table, column, where;
};
// SQL's, as it stands in a statement.
using Literal = std::string;

Literal text_literal(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

// Each node of a JSON value once in place of itself with something else. What stands there instead
// goes round, so that all of it meets all kinds of fields.
void each_change(const json& whole, const std::function<void(const json&)>& use) {
  static const std::vector<json> kOthers = {nullptr,
                                            -1,
                                            UINT64_MAX,
                                            1e300,
                                            "",
                                            "../../x",
                                            json::array(),
                                            json::object(),
                                            {nullptr, "x", -1},
                                            true,
                                            "\x01\xc3\xa4"};
  static size_t other = 0;
  const json flat = whole.flatten();
  std::set<json::json_pointer> nodes;
  for (const auto& [pointer, value] : flat.items())
    for (json::json_pointer at(pointer); !at.empty(); at = at.parent_pointer()) nodes.insert(at);
  for (const json::json_pointer& at : nodes) {
    json changed = whole;
    changed[at] = kOthers[other++ % kOthers.size()];
    use(changed);
  }
}

class CorruptedStore : public testing::Test {
 protected:
  CorruptedStore() {
    write_model(folder.path + "/m");
    live_for_a_while();
  }

  // The rows of every kind that a loop writes.
  void live_for_a_while() {
    ManualClock clock;
    FakeCluster cluster(clock);
    cluster.start_takes = Seconds(1);
    Store store = std::move(*Store::open(healthy));
    predict::ProfileTable predictor;
    const auto control = std::move(*Control::open({store, store, cluster, predictor, clock}, {}));
    UnixMillis wall = kWall;
    const auto step = [&](int seconds) {
      for (int n = 0; n < 4 * seconds; ++n) {
        clock.advance(Millis(250));
        control->step(wall += 250);
      }
    };
    const auto apply = [&](const FunctionSpec& spec) {
      ASSERT_TRUE(Requests(*control).apply({spec}, false, wall).ok());
    };
    Profile profile{.model = folder.path + "/m.pt", .device = {"cpu/1000m"}};
    profile.points.push_back({{1, kWhole, kWhole}, Millis(20), Millis(30), 50});
    ASSERT_TRUE(control->set_profile(profile).ok());
    step(1);
    for (const FunctionName& name : {kGood, kBad}) apply(inference(name));
    apply(
        {.name = kJob, .kind = TrainingSpec{.command = {"/bin/train", "-v"}, .dataset = "/data"}});
    step(5);
    FunctionSpec second = inference(kBad);
    second.priority = 2;
    second.policy_settings = {{"alpha", "0.6"}};
    second.policy = "has-gpu";
    apply(second);
    cluster.load[kBad] = cluster.load[kGood] = 5;
    step(70);
    control->close();
  }

  FunctionSpec inference(const FunctionName& name) const {
    FunctionSpec spec{.name = name, .slice = Slice{.quota = {{200}, {300}}}};
    spec.inference().model.path = folder.path + "/m.pt";
    spec.inference().slo.latency = Millis(400);
    return spec;
  }

  // The store of a loop that opens it as it is, with this value at that place.
  void check(const Place& at, const Literal& value) {
    SCOPED_TRACE(at.table + "." + at.column + " where " + at.where + " = " + value.substr(0, 300));
    if (checked++ % kEvery != 0) return;
    std::filesystem::remove(path + "-wal");
    std::filesystem::remove(path + "-shm");
    std::filesystem::copy_file(healthy, path, std::filesystem::copy_options::overwrite_existing);
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
    const std::string sql =
        "UPDATE " + at.table + " SET " + at.column + "=" + value + " WHERE " + at.where;
    const int changed = sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr);
    sqlite3_close(db);
    if (changed == SQLITE_CONSTRAINT) return;  // SQLite itself keeps it out
    ASSERT_EQ(changed, SQLITE_OK) << sql;
    live();
  }

  void live() {
    ManualClock clock;
    FakeCluster cluster(clock);
    cluster.start_takes = Nanos(0);
    auto store = Store::open(path);
    ASSERT_TRUE(store.ok()) << store.error().message;
    predict::ProfileTable predictor;
    const auto control = Control::open({*store, *store, cluster, predictor, clock}, {});
    ASSERT_TRUE(control.ok()) << control.error().message;
    UnixMillis wall = kWall + 100'000;
    for (int n = 0; n < 3; ++n) {
      clock.advance(Seconds(2));
      (*control)->step(wall += 2000);
    }
    EXPECT_TRUE(cluster.routes["functions"].dump().find("default/good") != std::string::npos);
    EXPECT_FALSE((*control)->apart().contains(kGood));
    const json rows = function_rows(**control, wall);
    EXPECT_EQ(rows.size(), (*control)->functions().size() + (*control)->apart().size());
    for (const auto& [name, apart] : (*control)->apart()) EXPECT_FALSE(apart.why.empty());
    (void)rows.dump(-1, ' ', false, json::error_handler_t::replace);
    (void)revision_rows(**control, "");
    (void)report(**control);
    (void)metrics(**control);
    EXPECT_TRUE((*control)->journal().decisions(std::nullopt, 100).ok());
    EXPECT_TRUE((*control)->journal().rates(kBad, 0).ok());
    for (const FunctionName& name : {kBad, kJob})
      if ((*control)->functions().contains(name) || (*control)->apart().contains(name)) {
        EXPECT_TRUE(Requests(**control).remove(name, wall).ok());
      }
    (*control)->step(wall += 250);
  }

  // Every value of the table's rows of which `where` is true.
  std::vector<std::pair<Place, json>> values(const std::string& table, const std::string& column,
                                             const std::string& key, const std::string& where) {
    std::vector<std::pair<Place, json>> found;
    const auto db = Database::open_read_only(healthy);
    const auto read = const_cast<Database&>(*db).each(
        "SELECT " + key + ", " + column + " FROM " + table + " WHERE " + where, {},
        [&](const Row& r) {
          found.push_back({{table, column, key + "=" + text_literal(r.text(0))}, r.json(1)});
        });
    EXPECT_TRUE(read.ok());
    EXPECT_FALSE(found.empty()) << table;
    return found;
  }
  // The whole of a column, which should hold JSON, and each part of it.
  void check_json(const std::string& table, const std::string& column, const std::string& key,
                  const std::string& where, size_t rows = 1) {
    for (const auto& [at, value] : values(table, column, key, where)) {
      if (rows-- == 0) return;
      for (const char* whole :
           {"''", "'{'", "'null'", "'[]'", "'{}'", "'7'", "'[[]]'", "x'00ff'", "7"})
        check(at, whole);
      const Place& place = at;
      each_change(value, [&](const json& j) { check(place, text_literal(j.dump())); });
    }
  }
  void check_plain(const std::string& table, const std::string& column, const std::string& where) {
    for (const char* value : {"-1", "0", "1", "2147483648", "9223372036854775807", "1e300", "'x'",
                              "''", "x'00ff'", "'../../x'"})
      check({table, column, where}, value);
  }

  static constexpr UnixMillis kWall = 1'790'000'000'000;
  const TemporaryFolder folder;
  const std::string healthy = folder.path + "/healthy.db", path = folder.path + "/control.db";
  static constexpr int kEvery = 6;  // 1: all of them, which takes a minute
  int checked = 0;
};

TEST_F(CorruptedStore, OfAFunction) {
  for (const char* column : {"name", "newest", "serving"})
    for (const char* name : {"default/bad", "default/job"})
      check_plain("functions", column, "name=" + text_literal(name));
  check_plain("served", "function", "function='default/bad'");
  check_json("served", "revisions", "function", "function='default/bad'");
}

TEST_F(CorruptedStore, OfARevision) {
  for (const char* column : {"function", "number", "created"})
    check_plain("revisions", column, "function='default/bad' AND number=2");
  check_json("revisions", "spec", "number", "function='default/bad' AND number=2");
}

TEST_F(CorruptedStore, OfAJob) {
  check_plain("revisions", "number", "function='default/job'");
  check_json("revisions", "spec", "function", "function='default/job'");
}

TEST_F(CorruptedStore, OfAProfile) {
  check_plain("profiles", "model", "1");
  check_plain("profiles", "device_type", "1");
  check_json("profiles", "profile", "model", "1");
}

TEST_F(CorruptedStore, OfTheJournal) {
  check_plain("decisions", "function", "number=3");
  check_json("decisions", "detail", "number", "function='default/bad' AND detail<>'null'");
  check_json("decisions", "reason", "number", "function='default/bad' AND detail<>'null'");
  check_json("instances", "instance", "id", "1");
  check_json("accounts", "account", "key", "key IN ('default/bad', 'default/bad traffic', '')", 3);
  check_json("accounts", "account", "key", "key='memory has-gpu'");
  check_plain("rates", "rate", "function='default/bad'");
  check_plain("arrivals", "hour", "function='default/bad'");
  for (const char* minutes : {"'[-1]'", "'[1e300]'", "'{}'", "'['", "7"})
    check({"arrivals", "minutes", "function='default/bad'"}, minutes);
}

}  // namespace
}  // namespace sluice::control
