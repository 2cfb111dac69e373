// `sluice completion SHELL`: prints a script that asks `sluice __complete WORDS…` for the
// candidates at the cursor. The answer comes from the commands themselves and from the platform's
// state.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "cli/decisions.h"
#include "cli/listing.h"
#include "cli/noun.h"
#include "cli/session.h"
#include "policy/bundle.h"

namespace sluice::cli {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

// In place of words: the shell's own completion.
const Words kFiles{":files"}, kFolders{":dirs"};

constexpr std::string_view kBash = R"sh(_sluice() {
  local now="${COMP_WORDS[COMP_CWORD]}" offered
  offered="$("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null || :)"
  case "$offered" in
    :files) compopt -o filenames 2>/dev/null || :; COMPREPLY=($(compgen -f -- "$now" || :)) ;;
    :dirs) compopt -o filenames 2>/dev/null || :; COMPREPLY=($(compgen -d -- "$now" || :)) ;;
    *) COMPREPLY=($(compgen -W "$offered" -- "$now" || :)) ;;
  esac
}
complete -F _sluice sluice
)sh";

constexpr std::string_view kZsh = R"sh(#compdef sluice
_sluice() {
  local -a offered
  offered=("${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  case "${offered[1]}" in
    :files) _files ;;
    :dirs) _files -/ ;;
    '') ;;
    *) compadd -- "${offered[@]}" ;;
  esac
}
whence compdef >/dev/null && compdef _sluice sluice || :
)sh";

// Returns the rows of a listing; none if no platform runs.
json rows_of(const Session& session, const std::string& what) {
  const auto list = session.api(wire::http::verb::get, "/v1/" + what);
  return list.ok() ? *list : json::array();
}

Words functions_of(const Session& session) {
  Words names;
  for (const json& row : rows_of(session, "functions")) names.push_back(short_name(row));
  return names;
}

Words instances_of(const Session& session) {
  return ids_of(rows_of(session, "instances"));
}

Words devices_of(const Session& session) {
  return ids_of(rows_of(session, "devices"));
}

Words both(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Words names_of_noun(const Session& session, std::string what) {
  if (!noun()(what).empty()) return {};
  if (what == "devices") return devices_of(session);
  if (what == "instances") return both(instances_of(session), functions_of(session));
  return functions_of(session);
}

bool is_one_of(const std::string& word, const Words& words) {
  return std::ranges::find(words, word) != words.end();
}

// Returns what CLI::IsMember allows, from its description: "TEXT:{a,b,c}".
Words members(const std::string& description) {
  const size_t begin = description.find('{'), end = description.find('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  return CLI::detail::split(description.substr(begin + 1, end - begin - 1), ',');
}

// Returns an option's possible values.
Words values_of(const Session& session, const CLI::Option& option) {
  const std::string name = option.get_lnames().empty() ? "" : option.get_lnames()[0];
  if (name == "data") return kFolders;
  if (is_one_of(name, {"filename", "body", "rates", "trace", "runtime", "nvml", "mps", "tls-cert",
                       "tls-key", "gateway-token-file"}))
    return kFiles;
  if (name == "device") return devices_of(session);
  if (name == "function") return functions_of(session);
  if (name == "policy") {
    Words names;
    for (const policy::Bundle& b : policy::bundles()) names.emplace_back(b.name);
    return names;
  }
  return members(option.get_type_name());
}

// Returns a command's possible next arguments, after `before`.
Words arguments_of(const Session& session, const CLI::App& command, const Words& before) {
  const std::string& name = command.get_name();
  if (name == "get" || name == "describe") {
    if (before.size() == 1) return names_of_noun(session, before[0]);
    if (!before.empty()) return {};
    Words nouns;
    for (const Noun& n : kNouns) nouns.emplace_back(name == "get" ? n.many : n.one);
    return name == "get" ? nouns : both(functions_of(session), {"function", "instance", "device"});
  }
  if (name == "logs")
    return both({"node", "control", "gateway", "zygote"},
                both(functions_of(session), instances_of(session)));
  if (name == "resize") return instances_of(session);
  if (name == "completion") return {"bash", "zsh"};
  if (name == "run") return kFiles;
  for (const CLI::Option* option : command.get_options()) {
    const std::string argument = option->get_name(true);  // of an argument, not of an option
    if (argument == "function" || argument == "functions") return functions_of(session);
    if (argument == "device") return devices_of(session);
  }
  return {};
}

Words long_options(const CLI::App& app) {
  Words names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

const CLI::Option* option_of(const CLI::App& app, const CLI::App* command,
                             const std::string& word) {
  for (const CLI::App* a : {command, &app})
    if (a != nullptr)
      for (const CLI::Option* option : a->get_options())
        if (option->check_name(word)) return option;
  return nullptr;
}

const CLI::App* command_of(const CLI::App& app, const std::string& word) {
  for (const CLI::App* command : app.get_subcommands(nullptr))
    if (command->get_name() == word) return command;
  return nullptr;
}

// Splits "--data=DIR" into the two words that it stands for; bash gives it as three.
Words without_equals(const Words& words) {
  Words out;
  for (const std::string& word : words) {
    const size_t at = word.starts_with("--") ? word.find('=') : std::string::npos;
    if (word == "=") continue;
    out.push_back(word.substr(0, at));
    if (at != std::string::npos) out.push_back(word.substr(at + 1));
  }
  return out;
}

// Returns what may replace the last word.
Words candidates(const CLI::App& app, Session& session, const Words& words) {
  const CLI::App* command = nullptr;
  Words before;  // arguments of the command
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.starts_with("-")) {
      const CLI::Option* option = option_of(app, command, word);
      if (option == nullptr || option->get_items_expected_max() == 0) continue;
      if (++i + 1 == words.size()) return values_of(session, *option);
      const std::string& value = words[i];
      if (word == "--data")
        session.data = value.starts_with("~/") ? home() + value.substr(1) : value;
    } else if (command == nullptr) {
      command = command_of(app, word);
      if (command == nullptr) return {};
    } else {
      before.push_back(word);
    }
  }
  const bool option = !words.empty() && words.back().starts_with("-");
  if (option && command == nullptr) return long_options(app);
  if (option) return both(long_options(*command), {"--data", "--output"});
  if (command != nullptr) return arguments_of(session, *command, before);
  Words names;
  for (const CLI::App* each : app.get_subcommands(nullptr)) names.push_back(each->get_name());
  return names;
}

}  // namespace

void print_candidates(const CLI::App& app, Session& session, const Words& words) {
  for (const std::string& word : candidates(app, session, without_equals(words)))
    std::cout << word << "\n";
}

void add_completion(CLI::App& app, Outcome& outcome) {
  auto shell = std::make_shared<std::string>("bash");
  CLI::App* command = app.add_subcommand(
      "completion",
      "print a completion script: eval \"$(sluice completion)\" in bash, with zsh in zsh");
  command->add_option("shell", *shell)
      ->check(CLI::IsMember({"bash", "zsh"}))
      ->capture_default_str();
  command->callback([shell, &outcome] {
    std::cout << (*shell == "zsh" ? kZsh : kBash);
    outcome = Outcome();
  });
}

}  // namespace sluice::cli
