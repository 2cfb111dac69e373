// Formats the numbers of reasons, in units for people.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "model/slice.h"

namespace sluice::policy {

std::string percent(double fraction);
std::string percent(Share share);                          // "20 %", "12.5 %"
std::string per_second(double rate);                       // "42.0/s"
std::string milliseconds(Nanos time);                      // "17.5 ms"
std::string mebibytes(Bytes size);                         // "96 MiB"
std::string slice_text(Share sm, Share quota);             // "sm 50 % × quota 20 %"
std::string counted(int number, const std::string& noun);  // "1 device", "3 devices"
std::string seconds_text(Nanos time);                      // "1 second", "60 seconds"

// Joins parts with commas.
class Words {
 public:
  void add(const std::string& part) { text_ += (text_.empty() ? "" : ", ") + part; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// The numbers of a reason, without zeros: they explain nothing.
using Numbers = std::vector<std::pair<std::string, double>>;
Numbers nonzero(Numbers numbers);

}  // namespace sluice::policy
