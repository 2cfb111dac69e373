#include "kube/time_text.h"

#include <array>
#include <cstdio>
#include <ctime>

namespace sluice::kube {

std::string second_time(UnixMillis at) {
  const time_t seconds = at / 1000;
  tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::string micro_time(UnixMillis at) {
  std::string text = second_time(at);
  std::array<char, 16> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%06lldZ",
                static_cast<long long>(at % 1000) * 1000);
  text.pop_back();
  return text + fraction.data();
}

UnixMillis unix_millis(const std::string& text) {
  tm parts{};
  if (strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts) == nullptr) return 0;
  return UnixMillis{timegm(&parts)} * 1000;
}

}  // namespace sluice::kube
