// Function files of programs: what they say is what is read, and can be written and read again.
#include "control/spec/function_file.h"

#include <gmock/gmock.h>

#include "control/spec/function_text.h"

namespace sluice::control {
namespace {

using testing::HasSubstr;
using testing::Not;

// `spec`: its lines.
Result<std::vector<FunctionSpec>> read(const std::string& spec, const ModelCheck& check = {}) {
  return parse_functions(
      "apiVersion: sluice.dev/v1alpha1\nkind: InferenceFunction\nmetadata: {name: f}\nspec:\n"
      "  slo: {latency: 100ms}\n" +
          spec,
      {.file = "f.yaml", .folder = "/home/ada", .home = "/home/ada"}, check);
}

// Returns the one function, if it can also be written and read again.
FunctionSpec function(const std::string& spec) {
  const auto specs = read(spec);
  EXPECT_TRUE(specs.ok()) << specs.error().message;
  if (!specs.ok()) return {};
  const std::string text = to_yaml(specs->front());
  const auto again = parse_functions(text, {});
  EXPECT_TRUE(again.ok()) << again.error().message << "\n" << text;
  if (again.ok()) {
    EXPECT_EQ(again->front(), specs->front()) << text;
  }
  return specs->front();
}

std::string fault(const std::string& spec, const ModelCheck& check = {}) {
  const auto specs = read(spec, check);
  EXPECT_FALSE(specs.ok()) << spec;
  return specs.ok() ? "" : specs.error().message;
}

const std::string kServer = "  server:\n    command: [/bin/server]\n";

TEST(ProgramFile, AVariableIsATextOrASecret) {
  const FunctionSpec f =
      function(kServer + "    env: {A: b, N: 1, EMPTY: '', KEY: {file: api-key.v2}}\n");
  EXPECT_EQ(f.model().program.env,
            (std::map<std::string, EnvValue>{{"A", {.text = "b"}},
                                             {"EMPTY", {}},
                                             {"KEY", {.secret = "api-key.v2"}},
                                             {"N", {.text = "1"}}}));
}

TEST(ProgramFile, AnotherSecretIsADifferenceAndIsShownByItsName) {
  const FunctionSpec before = function(kServer + "    env: {KEY: text}\n");
  const FunctionSpec after = function(kServer + "    env: {KEY: {file: api-key}}\n");
  EXPECT_THAT(difference(before, after),
              testing::ElementsAre("server.env: KEY: text -> KEY: {file: api-key}"));
}

TEST(ProgramFile, ASecretThatCannotBeNamedIsRefused) {
  const std::pair<const char*, const char*> faults[] = {
      {"{file: /etc/shadow}",
       "f.yaml:8 spec.server.env.KEY.file: \"/etc/shadow\" is no name of a file in DATA/secrets"},
      {"{file: ../control.db}", "\"../control.db\" is no name of a file in DATA/secrets"},
      {"{file: ''}", "\"\" is no name of a file in DATA/secrets"},
      {"{}", "spec.server.env.KEY.file: is missing; it must be the name of a file"},
      {"{fle: api-key}", "f.yaml:8 spec.server.env.KEY.fle: unknown field, did you mean \"file\"?"},
      {"{file: [a]}", "spec.server.env.KEY.file: a list is not text"},
      {"[a]", "f.yaml:8 spec.server.env.KEY: must be a text, or {file: SECRET}"}};
  for (const auto& [value, said] : faults)
    EXPECT_THAT(fault(kServer + "    env: {KEY: " + value + "}\n"), HasSubstr(said)) << value;
  EXPECT_THAT(fault(kServer + "    env: {PORT: {file: port}}\n"),
              HasSubstr("secrets.PORT: is the node's to set"));
}

TEST(ProgramFile, AFaultOfTheContentIsAtItsField) {
  const auto with = [](const char* error) {
    return [error](ModelSpec&) -> Result<void> { return Error{ErrorKind::kInvalid, error}; };
  };
  const std::string spec = kServer + "    env: {KEY: {file: api-key}}\n";
  EXPECT_EQ(fault(spec, with("server.env.KEY.file: /d/secrets/api-key: no such file")),
            "f.yaml:8 spec.server.env.KEY.file: /d/secrets/api-key: no such file");
  EXPECT_EQ(fault(spec, with("/bin/server: no such file")),
            "f.yaml:7 spec.server.command: /bin/server: no such file");
}

}  // namespace
}  // namespace sluice::control
