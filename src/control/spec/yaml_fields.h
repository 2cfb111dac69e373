// Reads a YAML mapping field by field, and reports all of its faults rather than the first: unknown
// keys (with the nearest known one), duplicates, wrong types, values out of range. JSON is YAML, so
// this reads both. Used by one parse, on one thread.
#pragma once

#include <yaml-cpp/yaml.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/slice.h"

namespace sluice::control {

// The places of one document's fields, so that later checks can still name the line.
struct Source {
  std::string file;
  int line = 1;                        // where the document begins
  std::map<std::string, int> lines;    // by field: "spec.slo.latency"
  std::string server = "spec.server";  // the field that states the program

  // Returns "functions.yaml:12 spec.slo.latency"; an absent field has its nearest parent's line.
  // What is below spec.server is below `server`.
  std::string at(std::string field) const;
};

using Problems = std::vector<std::string>;

class Fields {
 public:
  // `path` names the mapping: "", "spec", "spec.slo". The references outlive this object.
  Fields(const YAML::Node& node, std::string path, Source& source, Problems& problems);
  // Reports keys that were not read.
  ~Fields();
  Fields(const Fields&) = delete;
  Fields& operator=(const Fields&) = delete;

  bool has(std::string_view key) const;
  bool is_mapping(const std::string& key) const;
  YAML::Node take(const std::string& key);  // an undefined node if absent
  std::string path_of(const std::string& key) const;

  // Each leaves `out` alone if the field is absent or wrong, and reports a wrong one.
  bool text(const std::string& key, std::string& out);  // returns whether there was text
  void integer(const std::string& key, int& out, int low, int high);
  void number(const std::string& key, double& out, double low, double high);
  void duration(const std::string& key, Nanos& out, Nanos low, Nanos high);
  void share(const std::string& key, Share& out);
  void bytes(const std::string& key, Bytes& out);
  // A list of texts.
  void words(const std::string& key, std::vector<std::string>& out);
  // A mapping of names to texts, numbers or truth values, as written in the file.
  void texts(const std::string& key, std::map<std::string, std::string>& out);
  // Calls `read` with the name and the value of each entry of a mapping. Reports names that stand
  // twice.
  using ReadEntry = std::function<void(const std::string& name, const YAML::Node& value)>;
  void entries(const std::string& key, std::string_view allowed, const ReadEntry& read);

  // Reports its absence, unless an unknown field looks like it: then only that one is a problem.
  void need(const std::string& key, std::string_view allowed);
  void complain(const std::string& key, std::string_view what);

 private:
  void scalar(const std::string& key, std::string_view allowed,
              const std::function<Result<void>(const std::string&, bool quoted)>& read);

  std::string path_;
  bool broken_ = false;  // no mapping: no more faults are reported
  Source& source_;
  Problems& problems_;
  std::map<std::string, YAML::Node> left_;      // keys not read yet
  std::vector<std::string> known_;              // keys that were read
  std::map<std::string, std::string> missing_;  // the report for each
};

// Reads a sub-mapping by `read` if it is there.
template <class Read>
void section(Fields& f, const std::string& key, Source& source, Problems& problems, Read read) {
  const YAML::Node node = f.take(key);
  if (!node.IsDefined()) return;
  Fields inner(node, f.path_of(key), source, problems);
  read(inner);
}

// Returns the nearest known word, or nothing if none is near.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known);
// Returns ", did you mean \"minReplicas\"?", or "." if none is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

}  // namespace sluice::control
