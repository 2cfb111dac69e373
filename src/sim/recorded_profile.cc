#include "sim/recorded_profile.h"

#include <cmath>
#include <optional>

#include "base/words.h"
#include "trace/fields.h"
#include "trace/text_file.h"
#include "wire/json/json.h"

namespace sluice::sim {
namespace {

constexpr size_t kMostJson = size_t{1} << 20;  // bytes
constexpr size_t kMostPoints = 100'000;

Result<control::Profile> read_stored(const std::string& path) {
  SLUICE_ASSIGN(text, trace::read_text(path, kMostJson));
  const auto parsed = wire::parse_json(text);
  const auto profile =
      parsed.ok() ? control::profile_from(*parsed) : Result<control::Profile>(parsed.error());
  if (!profile.ok()) return within(path, profile.error());
  return control::Profile{.memory = profile->memory, .points = profile->points};
}

bool lies_within(std::optional<double> value, double least, double most) {
  return value && *value >= least && *value <= most;
}

Result<MeasuredPoint> point_in(const trace::TextFile& file, std::string_view line) {
  std::optional<double> cells[3];
  std::string_view rest = line;
  for (std::optional<double>& cell : cells) {
    const size_t end = std::min(rest.find(','), rest.size());
    cell = trace::number(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const auto& [batch, sm, takes] = cells;
  if (!lies_within(batch, 1, 1024) || !lies_within(sm, 0.1, 100) || !lies_within(takes, 1e-6, 3600))
    return file.error("'" + clipped(std::string(line), 40) +
                      "' is not batch (1 to 1024), SM (0.1 to 100 per cent), seconds (1e-6 to "
                      "3600)");
  return MeasuredPoint{
      {static_cast<int>(*batch), {static_cast<int>(std::lround(*sm * 10))}, kWhole},
      Micros(std::llround(*takes * 1e6))};
}

}  // namespace

Result<control::Profile> read_profile(const std::string& path) {
  if (path.ends_with(".json")) return read_stored(path);
  SLUICE_ASSIGN(file, trace::TextFile::open(path));
  control::Profile profile;
  while (true) {
    SLUICE_ASSIGN(line, file.next_with_content());
    if (!line) break;
    if (profile.points.size() == kMostPoints)
      return file.error("there are more than 100000 points");
    SLUICE_ASSIGN(point, point_in(file, *line));
    profile.points.push_back(point);
  }
  if (profile.points.empty()) return file.error("there is no point in the file");
  return profile;
}

}  // namespace sluice::sim
