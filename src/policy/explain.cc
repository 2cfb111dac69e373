#include "policy/explain.h"

#include <cstdio>

namespace sluice::policy {
namespace {

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

}  // namespace

std::string percent(Share share) {
  return format(share.permille % 10 == 0 ? "%.0f %%" : "%.1f %%", share.permille / 10.0);
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

}  // namespace sluice::policy
