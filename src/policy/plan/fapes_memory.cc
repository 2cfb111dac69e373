#include "policy/plan/fapes_memory.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace sluice::policy {
namespace {

constexpr std::string_view kAll = "fapes ", kRoundBegin = "fapes round", kRecord = "fapes job ",
                           kDevices = "fapes plan ",
                           kBounds = "fapes bounds";  // H, U and a round's length, in seconds

std::vector<double> numbers_of(const FapesRecord& r) {
  return {r.noise, r.measured ? 1.0 : 0.0, r.past_goodput, r.past_seconds, r.at,
          r.done,  r.achievement};
}

FapesRecord record_of(const std::vector<double>& n) {
  if (n.size() != 7) return {};
  return {.planned = true,
          .noise = n[0],
          .measured = n[1] > 0,
          .past_goodput = n[2],
          .past_seconds = n[3],
          .at = n[4],
          .done = n[5],
          .achievement = n[6]};
}

}  // namespace

std::optional<BoardView> board_view(const Memory& memory,
                                    const std::map<std::string, int>& devices) {
  const auto bounds = memory.numbers.find(std::string(kBounds));
  if (bounds == memory.numbers.end() || bounds->second.size() != 3) return std::nullopt;
  BoardView view{.round_seconds = bounds->second[2], .nodes = {}, .rounds_of = {}};
  size_t rounds = 1;
  for (const auto& [name, count] : devices) view.nodes[name].devices = count;
  for (auto i = memory.numbers.lower_bound(std::string(kDevices));
       i != memory.numbers.end() && i->first.starts_with(kDevices); ++i) {
    const size_t space = i->first.rfind(' ');
    const std::string job = i->first.substr(kDevices.size(), space - kDevices.size());
    const auto node = view.nodes.find(i->first.substr(space + 1));
    if (node == view.nodes.end()) continue;
    const size_t count = i->second.size();
    rounds = std::max(rounds, count);
    std::vector<int>& workers = view.rounds_of[job];
    if (workers.size() < count) workers.resize(count);
    if (node->second.held.size() < count) node->second.held.resize(count);
    for (size_t r = 0; r < count; ++r) {
      workers[r] += static_cast<int>(i->second[r]);
      node->second.held[r] += static_cast<int>(i->second[r]);
    }
  }
  for (auto& [name, node] : view.nodes) {
    node.held.resize(rounds);
    for (const int held : node.held)
      node.prices.push_back(
          device_price(bounds->second[0], bounds->second[1], held, std::max(node.devices, 1)));
  }
  return view;
}

FapesMemory::FapesMemory(Table& table, Nanos round) : table_(table), round_(round) {
  for (size_t n = 0; n < table.devices.size(); ++n) numbers_of_nodes_.emplace(node(n), n);
  const double now = seconds(table.now.time_since_epoch());
  const auto last = table.memory->numbers.find(std::string(kRoundBegin));
  begin_ = now;
  if (last == table.memory->numbers.end() || last->second.size() != 1) return;
  // The loop decides at intervals, so a round may end a little early.
  const double slack = std::min(1.0, seconds(round) / 10);
  const double rounds = std::floor((now - last->second[0] + slack) / seconds(round));
  over_ = static_cast<size_t>(std::clamp(rounds, 0.0, 1e6));
  if (over_ == 0 && now >= last->second[0]) begin_ = last->second[0];
}

std::string FapesMemory::name(size_t job) const {
  return to_string(table_.jobs[job].job().name());
}

std::string FapesMemory::node(size_t number) const {
  return number < table_.names.size() ? table_.names[number] : std::to_string(number);
}

FapesRecord FapesMemory::of(size_t job) const {
  const auto& numbers = table_.memory->numbers;
  const auto at = numbers.find(std::string(kRecord) + name(job));
  if (at == numbers.end()) return {};
  FapesRecord record = record_of(at->second);
  const std::string prefix = std::string(kDevices) + name(job) + " ";
  for (auto i = numbers.lower_bound(prefix); i != numbers.end() && i->first.starts_with(prefix);
       ++i) {
    const std::vector<double>& devices = i->second;
    if (devices.size() <= over_) continue;
    const auto known = numbers_of_nodes_.find(i->first.substr(prefix.size()));
    if (known == numbers_of_nodes_.end()) {
      record.lacks_node = true;
      continue;
    }
    if (record.schedule.size() < devices.size() - over_)
      record.schedule.resize(devices.size() - over_);
    for (size_t r = over_; r < devices.size(); ++r)
      if (devices[r] > 0)
        record.schedule[r - over_].emplace_back(known->second, static_cast<int>(devices[r]));
  }
  for (Placed& placed : record.schedule) std::ranges::sort(placed);
  return record;
}

void FapesMemory::remember(const std::vector<FapesRecord>& records, const Board& board) {
  auto& numbers = table_.memory->numbers;
  std::erase_if(numbers, [](const auto& entry) { return entry.first.starts_with(kAll); });
  numbers[std::string(kRoundBegin)] = {begin_};
  numbers[std::string(kBounds)] = {board.least(), board.most(), seconds(round_)};
  for (size_t j = 0; j < records.size(); ++j) {
    if (!records[j].planned) continue;
    numbers[std::string(kRecord) + name(j)] = numbers_of(records[j]);
    const Schedule& schedule = records[j].schedule;
    for (size_t r = 0; r < schedule.size(); ++r)
      for (const auto& [n, workers] : schedule[r]) {
        auto& devices = numbers[std::string(kDevices) + name(j) + " " + node(n)];
        devices.resize(r + 1);
        devices[r] = workers;
      }
  }
}

}  // namespace sluice::policy
