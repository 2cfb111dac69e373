#include "policy/explain.h"

#include <cmath>
#include <cstdio>

namespace sluice::policy {
namespace {

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

}  // namespace

std::string percent(double fraction) {
  const double value = fraction * 100;
  return format(std::abs(value - std::round(value)) < 0.05 ? "%.0f %%" : "%.1f %%", value);
}
std::string percent(Share share) {
  return percent(share.fraction());
}
std::string per_second(double rate) {
  return format("%.1f/s", rate);
}
std::string milliseconds(Nanos time) {
  return format("%.1f ms", millis(time));
}
std::string mebibytes(Bytes size) {
  return format("%.0f MiB", static_cast<double>(size) / (1 << 20));
}
std::string slice_text(Share sm, Share quota) {
  return "sm " + percent(sm) + " × quota " + percent(quota);
}
std::string seconds_text(Nanos time) {
  return counted(static_cast<int>(seconds(time)), "second");
}

std::string counted(int number, const std::string& noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}
Numbers nonzero(Numbers numbers) {
  std::erase_if(numbers, [](const auto& number) { return number.second == 0; });
  return numbers;
}

}  // namespace sluice::policy
