// `sluice rollback`, `delete`, `pause`, `resume`, `drain`, `undrain`.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "cli/files.h"
#include "cli/session.h"
#include "cli/wait.h"
#include "control/spec/function_file.h"

namespace sluice::cli {
namespace {

using nlohmann::json;
using wire::http::verb;

constexpr int kHighestRevision = 1'000'000'000;

Result<void> call(const Session& session, verb method, const std::string& target, const json& body,
                  const std::string& said) {
  SLUICE_ASSIGN(answer, session.api(method, target, body));
  if (session.json())
    print(answer);
  else
    std::cout << said << "\n";
  return {};
}

struct RollbackFlags {
  std::string function;
  int to = 0;
  WaitFlags wait;
};

Result<void> rollback(const Session& session, const RollbackFlags& f) {
  if (const auto timeout = timeout_of(f.wait); !timeout.ok()) return timeout.error();
  SLUICE_ASSIGN(answer, session.api(verb::post, session.function_path(f.function) + "/rollback",
                                    {{"to", f.to}}));
  const int revision = answer["revision"];
  const std::string assumed = answer.value("assumed", "");
  if (!session.json())
    std::cout << f.function << " rolls back to revision " << revision
              << (assumed.empty() ? "" : "\n" + assumed) << std::endl;
  auto waited = wait_as_asked(session, f.wait, {{session.named(f.function), revision}});
  if (session.json()) print(answer);
  return waited;
}

// Returns the functions that files name, each once; an error if one is unknown.
Result<std::vector<std::string>> named_in(const Session& session,
                                          const std::vector<std::string>& files) {
  std::vector<std::string> names;
  SLUICE_ASSIGN(texts, read_files(files));
  for (const FunctionFile& file : texts) {
    SLUICE_ASSIGN(
        specs, control::parse_functions(file.text, {.file = file.name,
                                                    .folder = file.folder,
                                                    .home = home(),
                                                    .models = control::folder_of_models(home())}));
    for (const FunctionSpec& spec : specs)
      if (std::ranges::find(names, to_string(spec.name)) == names.end())
        names.push_back(to_string(spec.name));
  }
  for (const std::string& name : names) {
    const auto there = session.api(verb::get, session.function_path(name));
    if (!there.ok()) return there.error();
  }
  return names;
}

struct RemoveFlags {
  std::string function;
  std::vector<std::string> files;
  bool with_model = false;
};

void say_deleted(const std::string& name, const json& answer) {
  std::cout << name << " deleted\n";
  for (const std::string path : answer.value("kept", json::array()))
    std::cout << "its trained model is kept: " << path << "\n";
}

Result<void> remove(const Session& session, const RemoveFlags& f) {
  if (f.function.empty() == f.files.empty())
    return Error{ErrorKind::kInvalid, "delete: give one function, or -f FILE"};
  const auto ask = [&](const std::string& name) {
    return session.api(verb::delete_,
                       session.function_path(name) + (f.with_model ? "?with_model=true" : ""));
  };
  if (!f.function.empty()) {
    SLUICE_ASSIGN(answer, ask(f.function));
    if (session.json())
      print(answer);
    else
      say_deleted(f.function, answer);
    return {};
  }
  SLUICE_ASSIGN(names, named_in(session, f.files));
  json deleted = json::array();
  Result<void> outcome;
  for (auto n = names.begin(); n != names.end() && outcome.ok(); ++n) {
    auto answer = ask(*n);
    if (!answer.ok()) {
      outcome = answer.error();
      continue;
    }
    if (!session.json()) say_deleted(*n, *answer);
    deleted.push_back(std::move(*answer));
  }
  if (session.json() && (outcome.ok() || !deleted.empty())) print(deleted);
  return outcome;
}

}  // namespace

void add_change(CLI::App& app, Session& session, Outcome& outcome) {
  auto back = std::make_shared<RollbackFlags>();
  CLI::App* rollback_command = app.add_subcommand("rollback", "serve an earlier revision again");
  rollback_command->add_option("function", back->function)->required();
  rollback_command
      ->add_option("--to", back->to, "the revision; without: the one that served before")
      ->check(CLI::Range(1, kHighestRevision));
  add_namespace(*rollback_command, session);
  add_wait(*rollback_command, back->wait);
  rollback_command->callback([=, &session, &outcome] { outcome = rollback(session, *back); });
  auto removed = std::make_shared<RemoveFlags>();
  CLI::App* remove_command =
      app.add_subcommand("delete", "delete a function; what it has accepted is answered");
  remove_command->add_option("function", removed->function);
  remove_command->add_option("-f,--filename", removed->files,
                             "delete the functions that these files, or folders of them, name");
  remove_command->add_flag("--with-model", removed->with_model,
                           "also the model that a training function has trained");
  add_namespace(*remove_command, session);
  remove_command->callback([=, &session, &outcome] { outcome = remove(session, *removed); });
  auto job = std::make_shared<std::string>();
  auto from = std::make_shared<int64_t>(-1);
  for (const std::string word : {"pause", "resume"}) {
    CLI::App* command = app.add_subcommand(
        word, word == "pause" ? "a training function's workers leave, with a checkpoint"
                              : "it goes on from its newest checkpoint, also after a trouble");
    command->add_option("function", *job)->required();
    if (word == "resume")
      command
          ->add_option("--from", *from,
                       "the step of an earlier checkpoint (`sluice get checkpoints`); the job has "
                       "to be paused, and later checkpoints are set aside")
          ->check(CLI::NonNegativeNumber);
    add_namespace(*command, session);
    command->callback([=, &session, &outcome] {
      const json body = word == "resume" && *from >= 0 ? json{{"from", *from}} : json();
      outcome = call(
          session, verb::post, session.function_path(*job) + "/" + word, body,
          *job + " " + word + "d" + (body.is_null() ? "" : " from step " + std::to_string(*from)));
    });
  }
  auto device = std::make_shared<std::string>();
  for (const std::string word : {"drain", "undrain"}) {
    CLI::App* command =
        app.add_subcommand(word, word == "drain" ? "a device takes no more instances"
                                                 : "a device takes instances again");
    command->add_option("device", *device)->required();
    command->callback([=, &session, &outcome] {
      outcome = call(session, verb::post, "/v1/devices/" + escaped(*device) + "/" + word, nullptr,
                     *device + " " + word + "ed");
    });
  }
}

}  // namespace sluice::cli
