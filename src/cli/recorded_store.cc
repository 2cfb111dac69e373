#include "cli/recorded_store.h"

#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/system_error.h"
#include "control/local/store.h"
#include "sim/recorded_platform.h"
#include "wire/json/function_json.h"
#include "wire/json/json.h"

namespace sluice::cli {
namespace {

using nlohmann::json;
using wire::http::verb;

constexpr Nanos kTwoWeeks = Seconds(14 * 24 * 3600);  // longer than any store's arrivals

control::ArrivalHour hour_from(const FunctionName& f, const json& row) {
  control::ArrivalHour hour{.function = f, .hour = row.value("hour", int64_t{0})};
  const json minutes = row.value("minutes", json::array());
  for (size_t m = 0; m < std::min(hour.arrivals.size(), minutes.size()); ++m)
    hour.arrivals[m] = minutes[m].get<uint32_t>();
  return hour;
}

}  // namespace

RecordedStore::~RecordedStore() {
  std::error_code fault;
  std::filesystem::remove_all(folder_, fault);
}

Result<std::unique_ptr<RecordedStore>> RecordedStore::fetch(const Session& session) {
  std::string folder = std::filesystem::temp_directory_path() / "sluice-store-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return system_error(folder);
  std::unique_ptr<RecordedStore> store(new RecordedStore(folder));
  std::string after;
  do {  // pages; a controller of before them answers all at once
    SLUICE_ASSIGN(page, session.api(verb::get, "/v1/history?after=" + after));
    SLUICE_TRY(store->fill(page));
    after = page.value("next", "");
  } while (!after.empty());
  return store;
}

Result<void> RecordedStore::fill(const json& page) const {
  SLUICE_ASSIGN(store, control::Store::open(path()));
  control::JournalEntry entry;
  for (const json& row : page.value("functions", json::array())) {
    SLUICE_ASSIGN(spec, wire::function_spec_from(row.value("specification", json::object())));
    SLUICE_TRY(store.add_revision({spec.name, 1, spec, 0}, 1));
    for (const json& hour : row.value("arrivals", json::array()))
      entry.arrivals.push_back(hour_from(spec.name, hour));
  }
  SLUICE_TRY(store.write(entry));
  for (const json& row : page.value("profiles", json::array())) {
    SLUICE_ASSIGN(profile, control::profile_from(row));
    SLUICE_TRY(store.save_profile(profile));
  }
  return {};
}

Result<std::string> RecordedStore::scenario(const Session& session) const {
  SLUICE_ASSIGN(recorded, sim::read_platform(path(), kTwoWeeks));
  if (recorded.recorded <= Nanos(0))
    return Error{ErrorKind::kInvalid,
                 "no whole minute of arrivals is recorded yet; the minute in progress does not "
                 "count"};
  SLUICE_ASSIGN(rows, session.api(verb::get, "/v1/devices"));
  std::map<DeviceType, std::pair<Device, int>> types;
  for (const json& row : rows) {
    SLUICE_ASSIGN(device, wire::device_from(row));
    ++types.try_emplace(type_of(device), device, 0).first->second.second;
  }
  json devices = json::array();
  for (const auto& [type, of] : types)
    devices.push_back({{"type", type.name},
                       {"kind", of.first.kind == DeviceKind::kCuda ? "gpu" : "cpu"},
                       {"count", of.second},
                       {"memory", std::to_string(of.first.memory >> 20) + "Mi"},
                       {"pricePerHour", of.first.price_per_hour}});
  const json scenario{{"apiVersion", "sluice.dev/v1alpha1"},
                      {"kind", "Scenario"},
                      {"metadata", {{"name", "recorded"}}},
                      {"spec",
                       {{"duration", std::to_string(recorded.recorded / Seconds(1)) + "s"},
                        {"devices", std::move(devices)}}}};
  return scenario.dump(1);  // JSON is YAML
}

}  // namespace sluice::cli
