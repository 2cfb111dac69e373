// Gantt: which functions were on which devices when, node by node, and which nodes were on loan, as
// an SVG text. Takes what each second shows. One thread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "model/device.h"

namespace sluice::sim {

// An instance on a device.
struct Occupant {
  std::string node;
  DeviceId device;
  std::string function;
  bool trains = false;
};

class Gantt {
 public:
  // More devices are not drawn; the first ones are.
  static constexpr size_t kMostDevices = 256;

  // What is there, that long after the beginning. `lent`: nodes of inference that training has.
  void add(Nanos passed, const std::vector<Occupant>& now, const std::set<std::string>& lent);
  // Every device that was ever occupied has a row, by name. Jobs are coloured, inference is grey;
  // behind a node on loan the ground is yellow.
  std::string svg() const;

 private:
  struct Bar {
    Nanos begin{0}, end{0};  // as it was last seen
  };
  using Bars = std::vector<Bar>;
  void extend(Bars& bars, Nanos passed) const;  // from the last time until then

  Nanos last_{0};                                              // time of an add()
  std::map<std::string, std::set<DeviceId>> devices_;          // by node
  std::map<std::pair<DeviceId, std::string>, Bars> occupied_;  // by device and function
  std::map<std::string, Bars> lent_;                           // by node
  std::set<std::string> jobs_;
};

}  // namespace sluice::sim
