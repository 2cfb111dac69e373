// A thin owner of an SQLite connection: statements with bound values, errors as values. One thread.
#pragma once

#include <sqlite3.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace sluice::control {

using SqlValue = std::variant<int64_t, double, std::string>;

// The latest time that a row is believed to be of: the year 2286.
inline constexpr UnixMillis kLatest = 10'000'000'000'000;

// A row, while a query runs; columns from 0.
class Row {
 public:
  explicit Row(sqlite3_stmt* statement) : statement_(statement) {}
  int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  double number(int column) const { return sqlite3_column_double(statement_, column); }
  std::string text(int column) const;
  nlohmann::json json(int column) const;  // null: the text is not JSON

 private:
  sqlite3_stmt* statement_;
};

class Database {
 public:
  // Uses a write-ahead log, synced at every commit. Returns kInternal with SQLite's message and the
  // path.
  static Result<Database> open(const std::string& path);
  // Reads the committed state of an existing file, also while another process writes it. Changes
  // neither the file nor its log.
  static Result<Database> open_read_only(const std::string& path);
  Database(Database&& other) noexcept
      : path_(std::move(other.path_)),
        db_(std::exchange(other.db_, nullptr)),
        idle_(std::exchange(other.idle_, {})) {}
  Database& operator=(Database&&) = delete;
  ~Database();

  Result<void> run(std::string_view sql, const std::vector<SqlValue>& values = {});
  Result<void> each(std::string_view sql, const std::vector<SqlValue>& values,
                    const std::function<void(const Row&)>& row);
  // Commits all of `work`, or nothing. Within another transaction it is a part of that.
  Result<void> transaction(const std::function<Result<void>()>& work);

 private:
  Database(std::string path, sqlite3* db) : path_(std::move(path)), db_(db) {}
  Error fault(std::string_view doing) const;
  sqlite3_stmt* prepare(std::string_view sql);

  std::string path_;
  sqlite3* db_;
  std::map<std::string, sqlite3_stmt*, std::less<>> idle_;  // prepared, by their text
};

}  // namespace sluice::control
