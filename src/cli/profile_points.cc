#include "cli/profile_points.h"

#include <algorithm>
#include <functional>

#include "model/quantity.h"

namespace sluice::cli {
namespace {

void descending(std::vector<Share>& shares) {
  std::ranges::sort(shares, std::greater());
  shares.erase(std::unique(shares.begin(), shares.end()), shares.end());
}

std::vector<Share> wanted_on(const Device& device, const Sweep& sweep) {
  if (!sweep.sms.empty()) return sweep.sms;
  if (device.kind == DeviceKind::kCuda) return sweep.gpu_sms;
  std::vector<Share> all;
  for (Share s = device.sm_quantum; s <= kWhole; s = s + device.sm_quantum) all.push_back(s);
  return all;
}

}  // namespace

const std::vector<NamedPoints>& named_points() {
  static const std::vector<NamedPoints> all{
      {"fast-gshare",
       "FaST-GShare's: 20, 40, 60, 80 and 100 % of time on 6, 12, 24, 50, 60, 80 and 100 % of SMs",
       {{200}, {400}, {600}, {800}, {1000}},
       {{60}, {120}, {240}, {500}, {600}, {800}, {1000}}}};
  return all;
}

const NamedPoints* named_points(std::string_view name) {
  const auto found = std::ranges::find(named_points(), name, &NamedPoints::name);
  return found == named_points().end() ? nullptr : &*found;
}

Result<std::vector<Share>> widths_in(const ProfileRoom& room, const Sweep& sweep) {
  const Device& device = room.device;
  std::vector<Share> widths;
  for (const Share wanted : wanted_on(device, sweep))
    widths.push_back(std::min(round_up(wanted, device.sm_quantum), kWhole));
  descending(widths);
  if (room.undivided.empty()) return widths;
  if (sweep.needs_sms)
    for (const Share wanted : sweep.sms)
      if (wanted < kWhole)
        return Error{ErrorKind::kInvalid, "--sms: " + format_share(wanted) + " of " + device.id +
                                              ": only 100 is allowed, an instance has all of it (" +
                                              room.undivided + ")"};
  return std::vector<Share>{kWhole};
}

std::vector<Configuration> points_in(const ProfileRoom& room, const Sweep& sweep,
                                     const std::vector<Share>& widths) {
  std::vector<Share> quotas;
  for (const Share q : sweep.quotas) quotas.push_back(std::min(q, room.quota));
  descending(quotas);
  std::vector<int> batches = sweep.batches;
  std::ranges::sort(batches);
  std::vector<Configuration> points;
  for (const Share quota : quotas)
    for (const Share sm : widths)
      for (const int batch : batches) points.push_back({batch, sm, quota});
  if (!room.device.can_resize_sm)
    std::ranges::stable_sort(points, std::greater(), &Configuration::sm);
  return points;
}

profile::Grid grid_in(const ProfileRoom& room, const Sweep& sweep, std::vector<Share> widths) {
  profile::Grid grid{.batches = sweep.batches, .sms = std::move(widths), .quotas = {}};
  std::ranges::sort(grid.batches);
  std::ranges::sort(grid.sms);
  for (int tenth = 1; tenth <= 10; ++tenth)
    if (const Share q{tenth * 100}; q <= room.quota) grid.quotas.push_back(q);
  return grid;
}

}  // namespace sluice::cli
