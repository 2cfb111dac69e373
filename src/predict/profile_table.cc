#include "predict/profile_table.h"

#include <algorithm>
#include <functional>

namespace sluice::predict {
namespace {

// Assumed of a table, not measured: the noise of a short measurement; the error of interpolating;
// the error of a rule beyond the points.
double uncertainty_of(PredictionSource source) {
  if (source == PredictionSource::kMeasured) return 0.05;
  return source == PredictionSource::kInterpolated ? 0.1 : 0.3;
}

// Of one function.
bool same(const ModelOnDevice& a, const ModelOnDevice& b) {
  return a.revision == b.revision && a.variant == b.variant && a.device == b.device;
}

}  // namespace

size_t ProfileTable::Hash::operator()(const FunctionName& f) const {
  const std::hash<std::string> hash;
  return 31 * hash(f.space) + hash(f.name);
}

void ProfileTable::learn(const Measurement& measured) {
  std::vector<Entry>& entries = entries_[measured.of.function];
  auto entry =
      std::ranges::find_if(entries, [&](const Entry& e) { return same(e.of, measured.of); });
  if (entry == entries.end()) entry = entries.insert(entry, {measured.of, {}});
  Table& table = entry->table;
  const bool measures = measured.estimated == 0;
  const bool has_measurement = table.estimated == 0 && !table.median.batches().empty();
  if (!measures && has_measurement) return;
  if (measures && table.estimated > 0) table = {};
  table.estimated = measured.estimated;
  if (measured.memory > 0) table.memory = measured.memory;
  for (const MeasuredPoint& p : measured.points) {
    if (p.at.batch <= 0 || p.at.sm <= kNone || p.at.quota <= kNone) continue;
    if (p.median <= Nanos(0)) continue;
    table.median.add(p.at, p.median, p.filled);
    table.p95.add(p.at, std::max(p.median, p.p95));
    table.service.add(p.at, p.throughput > 0 ? from_seconds(p.at.batch / p.throughput) : p.median);
  }
}

void ProfileTable::forget(const FunctionName& function) {
  entries_.erase(function);
}

const ProfileTable::Table* ProfileTable::find(const ModelOnDevice& m) const {
  const auto found = entries_.find(m.function);
  if (found == entries_.end()) return nullptr;
  for (const Entry& e : found->second)
    if (same(e.of, m)) return &e.table;
  return nullptr;
}

std::optional<Prediction> ProfileTable::predict(const ModelOnDevice& m,
                                                const Configuration& c) const {
  const Table* table = find(m);
  if (table == nullptr) return std::nullopt;
  const std::optional<Nanos> median = table->median.at(c, m.window);
  if (!median) return std::nullopt;
  if (table->estimated > 0) {
    Prediction p{*median, {}, table->estimated, PredictionSource::kLearned};
    p.p95 = cautious(p);
    return p;
  }
  const PredictionSource source = table->median.source(c);
  return Prediction{*median, std::max(*median, *table->p95.at(c, m.window)), uncertainty_of(source),
                    source};
}

double ProfileTable::throughput(const ModelOnDevice& m, const Configuration& c) const {
  const Table* table = find(m);
  const std::optional<Nanos> t = table == nullptr ? std::nullopt : table->service.at(c, Nanos(0));
  return t && t->count() > 0 ? c.batch / seconds(*t) / (1 + table->estimated) : 0;
}

Candidates ProfileTable::candidates(const ModelOnDevice& m) const {
  const Table* table = find(m);
  return table == nullptr ? Candidates{} : Candidates{table->median.batches(), table->median.sms()};
}

std::optional<Bytes> ProfileTable::memory(const ModelOnDevice& m) const {
  const Table* table = find(m);
  if (table == nullptr || table->memory <= 0) return std::nullopt;
  return table->memory;
}

}  // namespace sluice::predict
