#include "predict/profile_table.h"

namespace sluice::predict {

void ProfileTable::set(const Profile& profile) {
  Table table;
  table.memory = profile.memory;
  for (const ProfilePoint& p : profile.points) {
    if (p.at.batch <= 0 || p.at.sm <= kNone || p.at.quota <= kNone) continue;
    if (p.latency_p50 <= Nanos(0)) continue;
    table.latency.add(p.at, p.latency_p50);
    table.service.add(p.at,
                      p.throughput > 0 ? from_seconds(p.at.batch / p.throughput) : p.latency_p50);
  }
  tables_[{profile.function, profile.revision}] = std::move(table);
}

const ProfileTable::Table* ProfileTable::find(const FunctionName& function, int revision) const {
  const auto it = tables_.find({function, revision});
  return it == tables_.end() ? nullptr : &it->second;
}

std::optional<Nanos> ProfileTable::latency(const FunctionName& function, int revision,
                                           const Configuration& c) const {
  const Table* table = find(function, revision);
  return table == nullptr ? std::nullopt : table->latency.at(c, window_);
}

double ProfileTable::throughput(const FunctionName& function, int revision,
                                const Configuration& c) const {
  const Table* table = find(function, revision);
  const std::optional<Nanos> t = table == nullptr ? std::nullopt : table->service.at(c, Nanos(0));
  return t && t->count() > 0 ? c.batch / seconds(*t) : 0;
}

std::vector<int> ProfileTable::batches(const FunctionName& function, int revision) const {
  const Table* table = find(function, revision);
  return table == nullptr ? std::vector<int>{} : table->latency.batches();
}

std::vector<Share> ProfileTable::sms(const FunctionName& function, int revision) const {
  const Table* table = find(function, revision);
  return table == nullptr ? std::vector<Share>{} : table->latency.sms();
}

std::optional<Bytes> ProfileTable::memory(const FunctionName& function, int revision) const {
  const Table* table = find(function, revision);
  if (table == nullptr || table->memory <= 0) return std::nullopt;
  return table->memory;
}

}  // namespace sluice::predict
