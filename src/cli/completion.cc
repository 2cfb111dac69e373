// `sluice completion bash`: a completion script, made from the commands themselves. Names of what
// there is are asked of the platform while the user types (`sluice get … --names`).
#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/session.h"

namespace sluice::cli {
namespace {

// The words that may follow a command.
std::string words_after(const CLI::App& command) {
  std::string words;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) words += "--" + name + " ";
  if (command.get_name() == "get") words += "functions revisions instances devices decisions ";
  if (command.get_name() == "logs") words += "node control gateway zygote ";
  return words;
}

// What its arguments name: "functions", "instances", "devices", or nothing.
std::string names_after(const CLI::App& command) {
  if (command.get_name() == "logs") return "instances";
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name(true);  // of an argument, not of an option
    if (name == "function" || name == "functions") return "functions";
    if (name == "device") return "devices";
  }
  return "";
}

// The command is the first word that is one: options of all commands may stand before it. Only the
// second word after `get` is a function.
constexpr std::string_view kScript = R"sh(_sluice() {
  local i words="@COMMANDS@" names="" data=() now="${COMP_WORDS[COMP_CWORD]}"
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "${COMP_WORDS[i]}" in
      --data) data=(--data "${COMP_WORDS[++i]}") ;;
@CASES@    esac
  done
  if [[ "${COMP_WORDS[i]}" == get && $COMP_CWORD == $((i + 1)) ]]; then names=""; fi
  if [[ -n "$names" && "$now" != -* ]]; then
    words+=" $("${COMP_WORDS[0]}" "${data[@]}" get "$names" --names 2>/dev/null || :)"
  fi
  COMPREPLY=($(compgen -W "$words --data --output --help" -- "$now" || :))
}
complete -o default -F _sluice sluice
)sh";

void put(std::string& text, std::string_view place, const std::string& what) {
  text.replace(text.find(place), place.size(), what);
}

std::string script(const CLI::App& app) {
  std::string commands, cases;
  for (const CLI::App* sub : app.get_subcommands(nullptr)) {
    commands += sub->get_name() + " ";
    cases += "      " + sub->get_name() + ") words=\"" + words_after(*sub) + "\"; names=\"" +
             names_after(*sub) + "\"; break ;;\n";
  }
  std::string text(kScript);
  put(text, "@COMMANDS@", commands);
  put(text, "@CASES@", cases);
  return text;
}

}  // namespace

void add_completion(CLI::App& app, Outcome& outcome) {
  auto shell = std::make_shared<std::string>("bash");
  CLI::App* command =
      app.add_subcommand("completion", "print a completion script: eval \"$(sluice completion)\"");
  command->add_option("shell", *shell)->check(CLI::IsMember({"bash"}))->capture_default_str();
  command->callback([&app, &outcome] {
    std::cout << script(app);
    outcome = Outcome();
  });
}

}  // namespace sluice::cli
