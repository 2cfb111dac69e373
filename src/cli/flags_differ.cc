#include "cli/flags_differ.h"

#include <map>

namespace sluice::cli {
namespace {

std::map<std::string, std::string> flags_of(const std::vector<std::string>& command) {
  std::map<std::string, std::string> flags;
  for (size_t i = 2; i + 1 < command.size(); i += 2) flags[command[i]] = command[i + 1];
  return flags;
}

}  // namespace

std::string flags_that_differ(const std::vector<std::string>& running,
                              const std::vector<std::string>& wanted) {
  auto theirs = flags_of(running);
  std::string said;
  const auto say = [&](const std::string& words) { said += (said.empty() ? "" : ", ") + words; };
  for (const auto& [flag, value] : flags_of(wanted)) {
    const auto at = theirs.find(flag);
    if (at == theirs.end())
      say("no " + flag + " (" + value + ")");
    else if (at->second != value)
      say(flag + " " + at->second + " (not " + value + ")");
    if (at != theirs.end()) theirs.erase(at);
  }
  for (const auto& [flag, value] : theirs) say(flag + " " + value + " (not given now)");
  return said;
}

}  // namespace sluice::cli
