// What several readers of a scenario file share. Used by one parse, on one thread.
#pragma once

#include <algorithm>
#include <string>

#include "control/spec/yaml_fields.h"

namespace sluice::sim {

inline constexpr Nanos kLongest = std::chrono::hours(24 * 30);  // of a scenario and its parts

// The fields of a part of the file, and where its problems go.
struct ScenarioPart {
  control::Fields& fields;
  control::Source& source;
  control::Problems& problems;
};

// Reads each mapping of the list `key` by read(Fields&); `least` of them must be there.
template <class Read>
void read_each(const ScenarioPart& part, const std::string& key, size_t least, Read read) {
  const YAML::Node list = part.fields.take(key);
  if (!list.IsDefined()) return;
  if (!list.IsSequence() || list.size() < least)
    return part.fields.complain(key, "must be a list of mappings, of one at least");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string path = part.fields.path_of(key) + "[" + std::to_string(i) + "]";
    control::Fields item(list[i], path, part.source, part.problems);
    if (list[i].IsMap()) read(item);
  }
}

// Reads the mapping `key` by read(Fields&), if it is there.
template <class Read>
void read_section(const ScenarioPart& part, const std::string& key, Read read) {
  if (!part.fields.has(key)) return;
  control::Fields section(part.fields.take(key), part.fields.path_of(key), part.source,
                          part.problems);
  read(section);
}

// Reads a scalar's text, whatever it looks like; empty if absent.
inline std::string read_word(control::Fields& f, const std::string& key) {
  const YAML::Node node = f.take(key);
  if (!node.IsDefined()) return {};
  if (!node.IsScalar()) f.complain(key, "must be one value");
  return node.IsScalar() ? node.Scalar() : std::string();
}

// Returns the number in four digits: ids of one length are in the order of their numbers.
inline std::string four_digits(int n) {
  const std::string digits = std::to_string(n);
  return std::string(4 - std::min<size_t>(digits.size(), 4), '0') + digits;
}

}  // namespace sluice::sim
