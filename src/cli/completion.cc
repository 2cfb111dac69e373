// `sluice completion bash`: a completion script, made from the commands themselves.
#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/session.h"

namespace sluice::cli {
namespace {

std::string script(const CLI::App& app) {
  std::string words, cases;
  for (const CLI::App* sub : app.get_subcommands(nullptr)) {
    words += sub->get_name() + " ";
    std::string options;
    for (const CLI::Option* option : sub->get_options())
      for (const std::string& name : option->get_lnames()) options += "--" + name + " ";
    if (sub->get_name() == "get") options += "functions revisions instances devices decisions ";
    cases += "    " + sub->get_name() + ") words=\"" + options + "\" ;;\n";
  }
  return "_sluice() {\n  local words=\"" + words +
         "\"\n  [ \"$COMP_CWORD\" -gt 1 ] && case \"${COMP_WORDS[1]}\" in\n" + cases +
         "  esac\n  COMPREPLY=($(compgen -W \"$words --data --output --help\" -- "
         "\"${COMP_WORDS[COMP_CWORD]}\"))\n}\ncomplete -o default -F _sluice sluice\n";
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
