#include "tests/emulator/module_text.h"

#include <algorithm>

#include "tests/emulator/words.h"

namespace sluice::emulator {
namespace {
bool read_kernel(Words& words, KernelText& out) {
  const auto name = words.next();
  if (!name || name->find('=') != std::string_view::npos) return false;
  out.name = *name;
  while (const auto word = words.next()) {
    const auto [key, value] = split(*word);
    const auto number = number_of(value);
    if (!number) return false;
    if (key == "ns" && *number > 0)
      out.kernel.wave_ns = static_cast<Ns>(*number);
    else if (key == "sms" && *number > 0)
      out.kernel.most_sms = static_cast<std::uint32_t>(*number);
    else if (key == "bandwidth")
      out.kernel.bandwidth = static_cast<std::uint32_t>(*number);
    else if (key == "fault")
      out.fault = static_cast<int>(*number);
    else
      return false;
  }
  return out.kernel.wave_ns > 0;
}
}  // namespace

bool read_module(std::string_view text, std::vector<KernelText>& kernels) {
  const bool in_comments = text.find("//@") != std::string_view::npos;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (in_comments) {
      if (!line.starts_with("//@")) continue;
      line.remove_prefix(3);
    }
    Words words(line.substr(0, line.find('#')));
    const auto what = words.next();
    if (!what) continue;
    KernelText kernel;
    if (*what != "kernel" || !read_kernel(words, kernel)) return false;
    // FNV-1a: the same kernel has the same number in every process's log.
    std::uint32_t hash = 2166136261U;
    for (const char c : kernel.name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
    kernel.kernel.function = hash;
    kernels.push_back(std::move(kernel));
  }
  return true;
}

}  // namespace sluice::emulator
