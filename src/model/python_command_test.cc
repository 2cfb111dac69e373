#include "model/python_command.h"

#include <gmock/gmock.h>

namespace sluice {
namespace {

using testing::HasSubstr;

using Words = std::vector<std::string>;

TEST(PythonCommand, AnInterpreterWithAScriptMayHaveImports) {
  for (const char* python : {"/usr/bin/python3", "/opt/venv/bin/python", "python3.11"})
    EXPECT_EQ(imports_problem({python, "server.py", "-x"}, {"torch", "_a.b2"}), "") << python;
  EXPECT_EQ(imports_problem({"/bin/sh"}, {}), "") << "without imports any command is allowed";
}

TEST(PythonCommand, OtherCommandsAreRefused) {
  EXPECT_THAT(imports_problem({"/bin/sh", "server.py"}, {"torch"}),
              HasSubstr("'/bin/sh' is no interpreter of Python"));
  EXPECT_THAT(imports_problem({"/python/sh", "server.py"}, {"torch"}), HasSubstr("no interpreter"));
  EXPECT_THAT(imports_problem({}, {"torch"}), HasSubstr("no interpreter"));
  EXPECT_THAT(imports_problem({"/usr/bin/python3"}, {"torch"}), HasSubstr("is missing"));
  EXPECT_THAT(imports_problem({"/usr/bin/python3", "-m", "server"}, {"torch"}),
              HasSubstr("the word behind '/usr/bin/python3' is '-m'"));
}

TEST(PythonCommand, WhatIsNoNameOfAModuleIsRefused) {
  const Words command{"/usr/bin/python3", "server.py"};
  for (const char* name : {"", "1torch", ".torch", "to rch", "torch;x", "-c", "a/b", "ä"})
    EXPECT_THAT(imports_problem(command, {"json", name}), HasSubstr("is no module's name")) << name;
  EXPECT_THAT(imports_problem(command, {std::string(256, 'a')}), HasSubstr("is no module's name"));
  EXPECT_THAT(imports_problem(command, Words(65, "json")), HasSubstr("has 65 modules; at most 64"));
}

}  // namespace
}  // namespace sluice
