#include "wire/json/birth_json.h"

#include <gtest/gtest.h>

namespace sluice::wire {
namespace {

using nlohmann::json;

Result<Birth> read(const json& object) {
  Fields f(object, "instance");
  Birth birth = birth_from(f);
  return f.finish(std::move(birth));
}

const ExecOfProgram kProgram{.command = {"/bin/server", "--port", "$PORT"},
                             .environment = {{"MODE", "fast"}},
                             .secrets = {{"KEY", "api-key"}},
                             .port = 0,
                             .ready_path = "/health",
                             .ready_within = Seconds(600),
                             .drain_signal = "SIGUSR2"};

TEST(BirthJson, WhatIsWrittenIsRead) {
  ExecOfProgram handed = kProgram;
  handed.port.reset();
  ExecOfProgram warm = kProgram;
  warm.command = {"/usr/bin/python3", "server.py"};
  warm.imports = {"torch", "os.path"};
  const ForkOfTemplate fork{{.path = "/m.pt"}, {.max_size = 4}};
  for (const Birth& birth : {Birth(kProgram), Birth(handed), Birth(warm), Birth(fork)})
    EXPECT_EQ(*read(to_json(birth)), birth) << to_json(birth);
}

TEST(BirthJson, WithoutAProgramItIsAFork) {
  EXPECT_EQ(*read(json::object()), Birth(ForkOfTemplate{}));
}

TEST(BirthJson, AFaultNamesTheFieldTheValueAndWhatIsAllowed) {
  const std::tuple<const char*, json, const char*> cases[] = {
      {"command", json::array(), "command: has 0 words; 1 to 256 are allowed"},
      {"command", json::array({"server"}), "command: 'server' is not an absolute path"},
      {"command", json::array({"/s", 5}), "command: must be text of at most 32 KiB without a NUL"},
      {"command", json::array({std::string("/s\0x", 4)}),
       "command: must be text of at most 32 KiB without a NUL"},
      {"environment",
       {{"A=B", "1"}},
       "environment.A=B: is not a name of letters, digits and '_', the first no digit"},
      {"environment",
       {{"SLUICE_PERMIT_SOCKET", "/tmp/mine"}},
       "environment.SLUICE_PERMIT_SOCKET: is the node's to set, as are PORT, SLUICE_* and "
       "LISTEN_*"},
      {"environment", {{"A", 1}}, "environment.A: must be text of at most 32 KiB without a NUL"},
      {"secrets", {{"MODE", "api-key"}}, "secrets.MODE: stands in environment, too"},
      {"secrets",
       {{"PORT", "api-key"}},
       "secrets.PORT: is the node's to set, as are PORT, SLUICE_* and LISTEN_*"},
      {"secrets",
       {{"KEY", "/etc/shadow"}},
       "secrets.KEY: \"/etc/shadow\" is no name of a file in DATA/secrets, the only folder that "
       "secrets are read from: letters, digits and - _ . are allowed, at most 255, the first a "
       "letter or digit"},
      {"port", 80, "port: 80: 0 (any) and 1024 to 65535 are allowed"},
      {"port", nullptr, ""},  // descriptor 3, and ready_path is there
      {"ready_path", "health",
       "ready_path: 'health' is not a path that begins with '/', in ASCII without spaces"},
      {"ready_path", "/a b\r\n",
       "ready_path: '/a b\r\n' is not a path that begins with '/', in ASCII without spaces"},
      {"ready_path", "", ""},  // the port is there
  };
  for (const auto& [field, value, fault] : cases) {
    json program = to_json(kProgram);
    program[field] = value;
    const Result<Birth> birth = read({{"program", program}});
    EXPECT_EQ(birth.ok() ? "" : birth.error().message,
              *fault == 0 ? "" : "instance.program: program." + std::string(fault))
        << field << " " << value;
  }
}

TEST(BirthJson, ImportsAreForAScriptOfPythonWithAPort) {
  const json python = {{"command", {"/usr/bin/python3", "server.py"}},
                       {"imports", {"torch"}},
                       {"port", 0},
                       {"ready_path", "/"}};
  EXPECT_TRUE(read({{"program", python}}).ok());
  const std::tuple<const char*, json, const char*> cases[] = {
      {"imports", "torch", "is no list"},
      {"imports", {1}, "imports: must be a list of names"},
      {"imports", {"a;b"}, "imports: 'a;b' is no module's name"},
      {"command", {"/bin/sh", "server.py"}, "imports: '/bin/sh' is no interpreter of Python"},
      {"command", {"/usr/bin/python3", "-c"}, "the word behind '/usr/bin/python3' is '-c'"},
      {"port", nullptr, "imports: is for a program that has a port and no home"},
      {"home", "/srv/home", "imports: is for a program that has a port and no home"}};
  for (const auto& [field, value, fault] : cases) {
    json program = python;
    program[field] = value;
    const Result<Birth> birth = read({{"program", program}});
    ASSERT_FALSE(birth.ok()) << field;
    EXPECT_NE(birth.error().message.find(fault), std::string::npos) << birth.error().message;
  }
}

TEST(BirthJson, AProgramWithoutAPortNeedsAPath) {
  const Result<Birth> birth = read({{"program", {{"command", {"/bin/server"}}}}});
  EXPECT_EQ(birth.error().message,
            "instance.program: program.ready_path: is missing; a program without a port needs it");
}

TEST(BirthJson, AModelBesideAProgramIsRefused) {
  json both = to_json(Birth(kProgram));
  both["model"] = {{"path", "/m.pt"}};
  EXPECT_EQ(read(both).error().message,
            "instance.program: stands beside a model; one of the two is allowed");
}

}  // namespace
}  // namespace sluice::wire
