// The emulated devices' names and addresses: the same to the driver and to NVML. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

namespace sluice::emulator {

inline const char* device_name(bool is_small) {
  return is_small ? "Sluice emulated GPU S" : "Sluice emulated GPU";
}

inline std::array<std::uint8_t, 16> uuid_of(std::uint32_t device) {
  return {'S',  'l',  'u', 'i', 'c', 'e', 0x40, 0x01,
          0x80, 0x01, 'e', 'm', 'u', 'G', 'P',  static_cast<std::uint8_t>(device)};
}

// GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx
inline std::string uuid_text(std::uint32_t device) {
  std::string text = "GPU";
  const auto bytes = uuid_of(device);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", bytes[i]);
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += hex;
  }
  return text;
}

inline std::string bus_text(std::uint32_t device) {
  char text[24];
  std::snprintf(text, sizeof text, "0000:%02X:00.0", device + 1);
  return text;
}

}  // namespace sluice::emulator
