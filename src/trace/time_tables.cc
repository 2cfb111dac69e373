#include "trace/time_tables.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "base/words.h"
#include "trace/fields.h"
#include "trace/text_file.h"

namespace sluice::trace {
namespace {

constexpr double kMostInferences = 1e9;  // a second
constexpr size_t kMostPoints = 1'000'000;

// Percent, of which a permille is the least part.
Result<Share> share_in(const TextFile& file, std::string_view column, std::string_view field) {
  SLUICE_ASSIGN(percent, number_in(file, column, field, 0.1, 100));
  return Share{static_cast<int>(std::lround(percent * 10))};
}

Nanos from_ms(double ms) {
  return Nanos(std::llround(ms * 1e6));
}

// The points by model; a configuration that stands there twice is an error.
class Tables {
 public:
  Result<void> add(const TextFile& file, const std::string& model, const MeasuredPoint& point) {
    if (!seen_[model].insert(point.at).second)
      return file.error("this configuration of " + model + " stands there twice");
    if (++points_ > kMostPoints)
      return file.error("more than " + std::to_string(kMostPoints) + " points");
    if (point.median <= Nanos(0)) return file.error("the time is shorter than a nanosecond");
    tables_[model].push_back(point);
    return {};
  }
  std::vector<TimeTable> take() {
    std::vector<TimeTable> all;
    for (auto& [model, points] : tables_) all.push_back({model, std::move(points)});
    return all;
  }

 private:
  std::map<std::string, std::set<Configuration>> seen_;
  std::map<std::string, std::vector<MeasuredPoint>> tables_;
  size_t points_ = 0;
};

Result<std::vector<TimeTable>> read_rapp(TextFile& file) {
  constexpr std::string_view kColumns[] = {"model", "batch", "sm_pct", "quota_pct", "latency_ms"};
  SLUICE_ASSIGN(header, Header::read(file));
  size_t at[std::size(kColumns)];
  for (size_t i = 0; i < std::size(kColumns); ++i) {
    SLUICE_ASSIGN(place, header.column(file, kColumns[i]));
    at[i] = place;
  }
  Tables tables;
  for (;;) {
    SLUICE_ASSIGN(line, file.next_with_content());
    if (!line) break;
    SLUICE_ASSIGN(fields, header.fields(file, *line));
    SLUICE_ASSIGN(batch, whole_in(file, "batch", fields[at[1]], 1, kMostBatch));
    SLUICE_ASSIGN(sm, share_in(file, "sm_pct", fields[at[2]]));
    SLUICE_ASSIGN(quota, share_in(file, "quota_pct", fields[at[3]]));
    SLUICE_ASSIGN(ms, number_in(file, "latency_ms", fields[at[4]], 0, kLongestMs));
    SLUICE_TRY(tables.add(file, std::string(fields[at[0]]),
                          {.at = {batch, sm, quota}, .median = from_ms(ms)}));
  }
  return tables.take();
}

Result<std::vector<TimeTable>> read_dilu(TextFile& file, const std::string& path) {
  std::string name = std::filesystem::path(path).filename();
  name.resize(name.find('.'));
  Tables tables;
  for (;;) {
    SLUICE_ASSIGN(line, file.next_with_content());
    if (!line) break;
    SLUICE_ASSIGN(fields, split(file, *line));
    if (fields.size() < 3)
      return file.error("'" + clipped(std::string(*line), 40) + "' is not batch, sm, seconds");
    SLUICE_ASSIGN(batch, whole_in(file, "batch", fields[0], 1, kMostBatch));
    SLUICE_ASSIGN(sm, share_in(file, "sm", fields[1]));
    SLUICE_ASSIGN(time, number_in(file, "seconds", fields[2], 0, kLongestMs / 1000));
    MeasuredPoint point{.at = {batch, sm, kWhole}, .median = from_ms(time * 1000)};
    if (fields.size() > 3) {
      SLUICE_ASSIGN(rate, number_in(file, "rate", fields[3], 0, kMostInferences));
      point.throughput = rate;
    }
    SLUICE_TRY(tables.add(file, name, point));
  }
  return tables.take();
}

}  // namespace

Result<std::vector<TimeTable>> read_time_tables(const std::string& path) {
  SLUICE_ASSIGN(file, TextFile::open(path));
  SLUICE_ASSIGN(first, file.next_with_content());
  if (!first) return file.error("has no line");
  SLUICE_ASSIGN(fields, split(file, *first));
  const bool numbers = number(fields[0]).has_value();
  SLUICE_ASSIGN(again, TextFile::open(path));
  SLUICE_ASSIGN(tables, numbers ? read_dilu(again, path) : read_rapp(again));
  if (tables.empty()) return again.error("has no point");
  return tables;
}

}  // namespace sluice::trace
