#include "model/python_command.h"

#include <algorithm>

namespace sluice {
namespace {

constexpr size_t kMostImports = 64, kLongestName = 255;

bool is_module(const std::string& name) {
  const auto begins = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  };
  const auto goes_on = [&](char c) { return begins(c) || (c >= '0' && c <= '9') || c == '.'; };
  return !name.empty() && name.size() <= kLongestName && begins(name[0]) &&
         std::ranges::all_of(name, goes_on);
}

}  // namespace

std::string imports_problem(const std::vector<std::string>& command,
                            const std::vector<std::string>& imports) {
  if (imports.empty()) return "";
  if (imports.size() > kMostImports)
    return "has " + std::to_string(imports.size()) + " modules; at most " +
           std::to_string(kMostImports) + " are allowed";
  for (const std::string& name : imports)
    if (!is_module(name))
      return "'" + name +
             "' is no module's name: letters, digits, '_' and '.', the first a letter or '_', at "
             "most " +
             std::to_string(kLongestName);
  const std::string interpreter = command.empty() ? "" : command[0];
  if (!interpreter.substr(interpreter.rfind('/') + 1).starts_with("python"))
    return "'" + interpreter +
           "' is no interpreter of Python; a command such as [/usr/bin/python3, server.py] is "
           "allowed";
  if (command.size() < 2 || command[1].empty() || command[1].starts_with('-'))
    return "the word behind '" + interpreter + "' is " +
           (command.size() < 2 ? "missing" : "'" + command[1] + "'") +
           "; with imports a script is allowed there, and no option";
  return "";
}

}  // namespace sluice
