#include "tests/emulator/settings.h"

#include "tests/emulator/words.h"

namespace sluice::emulator {

bool read_settings(std::string_view text, MachineSpec& spec, std::string& why) {
  Words words(text);
  while (const auto word = words.next()) {
    const auto [key, value] = split(*word);
    why = std::string(*word);
    if (key == "clock") {
      if (value != "virtual" && value != "monotonic") return false;
      spec.virtual_clock = value == "virtual";
      continue;
    }
    const auto number = number_of(value);
    if (!number) return false;
    if (key == "devices" && *number <= kDevices)
      spec.devices = static_cast<std::uint32_t>(*number);
    else if (key == "sms" && *number > 0 && *number <= kMostSms)
      spec.device.sms = static_cast<std::uint32_t>(*number);
    else if (key == "small" && *number <= kDevices)
      spec.small = static_cast<std::uint32_t>(*number);
    else if (key == "small_sms" && *number > 0 && *number <= kMostSms)
      spec.small_sms = static_cast<std::uint32_t>(*number);
    else if (key == "memory_mib" && *number <= (1U << 20))
      spec.memory = *number << 20;
    else if (key == "context_mib" && *number <= (1U << 20))
      spec.context_memory = *number << 20;
    else if (key == "nvlinks" && *number <= 6)  // three other devices, 18 links
      spec.nvlinks = static_cast<std::uint32_t>(*number);
    else if (key == "mig" && *number <= 1)
      spec.mig = *number == 1;
    else if (key == "shared" && *number <= 1)
      spec.device.shared = *number == 1;
    else if (key == "slice_us" && *number > 0)
      spec.device.slice_ns = static_cast<Ns>(*number * 1000);
    else if (key == "link_gbps" && *number > 0)
      spec.device.link_gbps = static_cast<double>(*number);
    else if (key == "memory_gbps" && *number > 0)
      spec.device.memory_gbps = static_cast<double>(*number);
    else
      return false;
  }
  why.clear();
  return true;
}

}  // namespace sluice::emulator
