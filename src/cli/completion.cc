// `sluice completion bash`: a completion script, made from the commands themselves.
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
  return words;
}

// The command is the first word that is one: options of all commands may stand before it.
std::string script(const CLI::App& app) {
  std::string commands, cases;
  for (const CLI::App* sub : app.get_subcommands(nullptr)) {
    commands += sub->get_name() + " ";
    cases += "      " + sub->get_name() + ") words=\"" + words_after(*sub) + "\"; break ;;\n";
  }
  return "_sluice() {\n"
         "  local i words=\"" +
         commands +
         "\"\n"
         "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "    case \"${COMP_WORDS[i]}\" in\n" +
         cases +
         "    esac\n"
         "  done\n"
         "  COMPREPLY=($(compgen -W \"$words --data --output --help\" -- "
         "\"${COMP_WORDS[COMP_CWORD]}\"))\n"
         "}\n"
         "complete -o default -F _sluice sluice\n";
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
