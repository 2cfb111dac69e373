#include "control/local/database.h"

#include <fcntl.h>

#include <filesystem>
#include <system_error>

#include "base/fd.h"

namespace sluice::control {

std::string Row::text(int column) const {
  const unsigned char* text = sqlite3_column_text(statement_, column);
  return text == nullptr ? "" : reinterpret_cast<const char*>(text);
}

nlohmann::json Row::json(int column) const {
  auto parsed = nlohmann::json::parse(text(column), nullptr, false);
  return parsed.is_discarded() ? nlohmann::json() : parsed;
}

Result<Database> Database::open(const std::string& path) {
  // It holds tokens: only for its owner. SQLite gives its other files the same mode.
  const Fd made(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  sqlite3* db = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  Database database(path, db);
  if (code != SQLITE_OK) return database.fault("open");
  sqlite3_busy_timeout(db, 2000);
  SLUICE_TRY(database.run("PRAGMA journal_mode=WAL"));
  SLUICE_TRY(database.run("PRAGMA synchronous=FULL"));
  return database;
}

// Without a log beside it no process has the file open. SQLite is told so: else it would make the
// log's files.
Result<Database> Database::open_read_only(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown))
    return Error{ErrorKind::kNotFound, path + ": there is no such file"};
  std::string uri = "file:";
  for (const char c : path)
    uri += c == '%' ? "%25" : c == '?' ? "%3f" : c == '#' ? "%23" : std::string(1, c);
  uri += std::filesystem::exists(path + "-wal", unknown) ? "?mode=ro" : "?immutable=1";
  sqlite3* db = nullptr;
  const int code =
      sqlite3_open_v2(uri.c_str(), &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr);
  Database database(path, db);
  if (code != SQLITE_OK) return database.fault("open");
  sqlite3_busy_timeout(db, 2000);
  return database;
}

Database::~Database() {
  for (const auto& [sql, statement] : idle_) sqlite3_finalize(statement);
  sqlite3_close(db_);
}

Error Database::fault(std::string_view doing) const {
  std::string why = db_ != nullptr ? sqlite3_errmsg(db_) : "out of memory";
  // SQLite reports a full disk as "disk I/O error" where it makes its shared memory, of 32 KiB.
  std::error_code unknown;
  const std::filesystem::space_info disk = std::filesystem::space(path_, unknown);
  if (db_ != nullptr && (sqlite3_errcode(db_) & 0xff) == SQLITE_IOERR && !unknown &&
      disk.available < 64 * 1024)
    why += ": No space left on device";
  return {ErrorKind::kInternal, path_ + ": " + std::string(doing) + ": " + why};
}

// Returns nullptr if SQLite refuses it.
sqlite3_stmt* Database::prepare(std::string_view sql) {
  if (const auto found = idle_.find(sql); found != idle_.end())
    return idle_.extract(found).mapped();
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(db_, sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  return statement;
}

Result<void> Database::each(std::string_view sql, const std::vector<SqlValue>& values,
                            const std::function<void(const Row&)>& row) {
  sqlite3_stmt* statement = prepare(sql);
  if (statement == nullptr) return fault(sql);
  for (size_t i = 0; i < values.size(); ++i) {
    const int at = static_cast<int>(i) + 1;
    if (const auto* n = std::get_if<int64_t>(&values[i])) sqlite3_bind_int64(statement, at, *n);
    if (const auto* x = std::get_if<double>(&values[i])) sqlite3_bind_double(statement, at, *x);
    if (const auto* t = std::get_if<std::string>(&values[i]))
      sqlite3_bind_text(statement, at, t->data(), static_cast<int>(t->size()), SQLITE_TRANSIENT);
  }
  int code;
  while ((code = sqlite3_step(statement)) == SQLITE_ROW)
    if (row) row(Row(statement));
  Result<void> outcome;
  if (code != SQLITE_DONE) outcome = fault(sql);
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  if (!idle_.try_emplace(std::string(sql), statement).second) sqlite3_finalize(statement);
  return outcome;
}

Result<void> Database::run(std::string_view sql, const std::vector<SqlValue>& values) {
  return each(sql, values, {});
}

Result<void> Database::transaction(const std::function<Result<void>()>& work) {
  if (sqlite3_get_autocommit(db_) == 0) return work();  // the outer one commits or rolls back
  SLUICE_TRY(run("BEGIN IMMEDIATE"));
  Result<void> outcome;
  try {
    outcome = work();
  } catch (...) {
    (void)run("ROLLBACK");  // else nothing would ever be committed again
    throw;
  }
  if (outcome.ok()) outcome = run("COMMIT");
  if (!outcome.ok()) (void)run("ROLLBACK");
  return outcome;
}

}  // namespace sluice::control
