// The command line as users and their scripts meet it: help, exit codes, JSON, tables, completion,
// load, and the metrics endpoint.
#include <fcntl.h>
#include <pty.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <utility>

#include "base/words.h"
#include "tests/support/folder.h"
#include "tests/support/platform.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;
using testing::StartsWith;

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

TEST(PlatformCli, EveryCommandIsThereAndHelps) {
  const Ended all = run({program("sluice"), "--help"});
  EXPECT_EQ(all.code, 0);
  EXPECT_THAT(all.out, HasSubstr("Exit codes: 0 done, 1 failed, 2 wrong usage or input"));
  for (const std::string command :
       {"up",     "down",     "apply",      "get",      "describe",  "events",
        "status", "rollback", "delete",     "policies", "drain",     "undrain",
        "invoke", "logs",     "profile",    "load",     "top",       "run",
        "resize", "simulate", "quickstart", "version",  "completion"}) {
    EXPECT_THAT(all.out, HasSubstr("\n  " + command + " ")) << command;
    const Ended help = run({program("sluice"), command, "--help"});
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_THAT(help.out, HasSubstr("Usage: sluice " + command)) << command;
    EXPECT_EQ(help.err, "") << command;
  }
  EXPECT_THAT(run({program("sluice"), "version"}).out, StartsWith("sluice "));
}

struct Wrong {
  std::vector<std::string> words;
  int code;
  std::string err;
};

void expect_fails(const Platform& p, const Wrong& w) {
  const Ended e = p.cli(w.words);
  EXPECT_EQ(e.code, w.code) << testing::PrintToString(w.words) << e.err;
  EXPECT_THAT(e.err, HasSubstr(w.err)) << testing::PrintToString(w.words);
  EXPECT_EQ(e.out, "") << testing::PrintToString(w.words);
}

TEST(PlatformCli, ExitCodesSayWhatIsWrongAndWordsGoToStderr) {
  Platform p;
  p.deploy({});
  const std::vector<Wrong> all{
      {{}, 2, "a command is wanted; sluice --help lists them"},
      {{"frobnicate"}, 2, "'frobnicate' is no command (sluice --help lists them)"},
      {{"aply", "-f", "x"}, 2, "'aply' is no command; did you mean 'apply'?"},
      {{"-o", "json", "gte"}, 2, "'gte' is no command; did you mean 'get'?"},
      {{"stauts", "--help"}, 2, "'stauts' is no command; did you mean 'status'?"},
      {{"get", "functoins"}, 2, "did you mean 'functions'?"},
      {{"get"}, 2, "what is required"},
      {{"get", "pods"}, 2, "pods"},
      {{"get", "functions", "--limit", "many"}, 2, "many"},
      {{"load", "f", "--arrivals", "bursty"}, 2, "bursty"},
      {{"load", "f", "--duration", "soon"}, 2, "duration: 'soon' is none like 500ms, 5s, 2m"},
      {{"load", "f", "--rates", "/no/such"}, 3, "/no/such: cannot be read"},
      {{"get", "functions", "nobody"},
       3,
       "function 'default/nobody' not found; there is default/f"},
      {{"get", "revisions", "nobody"}, 3, "function 'default/nobody' not found"},
      {{"get", "decisions", "nobody"}, 3, "function 'default/nobody' not found"},
      {{"get", "instances", "nobody"}, 3, "function or instance 'nobody' not found; there is f-1-"},
      {{"get", "devices", "cpu7"},
       3,
       "device 'cpu7' not found; there are cpu0, cpu1, cpu2 and cpu3"},
      {{"get", "functions", "f", "-n", "other"}, 3, "function 'other/f' not found"},
      {{"events", "nobody"}, 3, "function 'default/nobody' not found"},
      {{"describe", "device", "cpu7"}, 3, "device 'cpu7' not found; there are cpu0"},
      {{"describe", "instance", "nobody"}, 3, "instance 'nobody' not found; there is f-1-"},
      {{"describe", "nobody"}, 3, "function 'default/nobody' not found"},
      {{"rollback", "nobody"}, 3, "function 'default/nobody' not found"},
      {{"rollback", "f"}, 2, "to: there is no earlier revision; there are 1"},
      {{"rollback", "f", "--to", "7"}, 3, "to: 7 is no revision; there are 1"},
      {{"delete", "nobody"}, 3, "function 'default/nobody' not found"},
      {{"delete"}, 2, "delete: give one function, or -f FILE"},
      {{"delete", "f", "-f", "x"}, 2, "delete: give one function, or -f FILE"},
      {{"rollback", "f", "--timeout", "soon"},
       2,
       "--timeout: \"soon\" is not a duration with a unit"},
      {{"drain", "cpu99"}, 3, "device 'cpu99' not found; there are cpu0, cpu1"},
      {{"invoke", "nobody"}, 3, "function 'default/nobody' not found"},
      {{"load", "nobody"}, 3, "function 'default/nobody' not found"},
      {{"logs", "nobody"}, 3, "log 'nobody' not found; there are "},
      {{"logs", "contrl"}, 3, "did you mean 'control'?"},
      {{"logs", "f/../../token"}, 3, "log 'f/../../token' not found"},
      {{"logs", "../token"}, 3, "log '../token' not found"},
      {{"apply", "-f", "/no/such.yaml"}, 3, "/no/such.yaml: cannot be read"},
      {{"profile", "-f", "/no/such.yaml"}, 3, "/no/such.yaml: cannot be read"},
      {{"up"}, 5, "another `sluice up` runs on this data directory"}};
  for (const Wrong& w : all) expect_fails(p, w);
  EXPECT_EQ(p.cli({"down"}).code, 0);
  for (const std::vector<std::string>& words : {std::vector<std::string>{"get", "functions"},
                                                {"describe", "f"},
                                                {"invoke", "f"},
                                                {"top"},
                                                {"load", "f"},
                                                {"delete", "f"},
                                                {"status"},
                                                {"events"},
                                                {"run", "--", "/bin/true"},
                                                {"resize", "mine", "--quota", "50"},
                                                {"down"}})
    expect_fails(p, {words, 4, "no platform runs on " + p.data});
  expect_fails(p, {{"get", "functions"}, 4, "start one: sluice --data " + p.data + " up\n"});
  p.launch();
}

TEST(PlatformCli, WhatIsAnotherUsersIsSaidToBe) {
  if (geteuid() != 0) GTEST_SKIP() << "root alone can be another user";
  Platform p;
  const TemporaryFolder folder;
  std::filesystem::permissions(folder.path, std::filesystem::perms{0755});
  std::filesystem::copy(program("sluice"), folder.path + "/sluice");
  const std::string hidden = p.data + "/logs/f.yaml";
  constexpr uid_t kAnother = 54321;
  for (const Wrong& w : std::vector<Wrong>{
           {{"get", "functions"}, 6, "the platform on " + p.data + " is another user's"},
           {{"status"}, 6, "the platform on " + p.data + " is another user's"},
           {{"invoke", "f"}, 6, "the platform on " + p.data + " is another user's"},
           {{"run", "--", "/bin/true"}, 6, "the platform on " + p.data + " is another user's"},
           {{"resize", "x", "--quota", "5"}, 6, "the platform on " + p.data + " is another user's"},
           {{"logs"}, 6, p.data + "/logs: Permission denied"},
           {{"logs", "node"}, 6, p.data + "/logs/node.log: Permission denied"},
           {{"apply", "-f", hidden}, 6, hidden + ": Permission denied"}}) {
    std::vector<std::string> words{folder.path + "/sluice", "--data", p.data};
    words.insert(words.end(), w.words.begin(), w.words.end());
    const Ended e = run(words, "", kAnother);
    EXPECT_EQ(e.code, w.code) << testing::PrintToString(w.words) << e.err;
    EXPECT_THAT(e.err, HasSubstr(w.err)) << testing::PrintToString(w.words);
  }
}

// 503 means "refused for now": the platform runs.
TEST(PlatformCli, AFunctionThatCannotServeRefusesForNow) {
  Platform p;
  EXPECT_EQ(p.apply({.words = "fail"}).code, 0);
  p.until("/v1/functions/default/f",
          [](const json& f) { return !f.value("unavailable", std::string()).empty(); });
  expect_fails(p, {{"invoke", "f"}, 5, "not a model"});
}

TEST(PlatformCli, StatusSaysWhatRunsWhere) {
  Platform p;
  const json status = p.cli_json({"status"});
  EXPECT_EQ(status["data"], p.data);
  EXPECT_EQ(status["gateway"], true);
  EXPECT_EQ(status["functions_at"], wire::to_string(p.gateway()));
  EXPECT_THAT(p.cli({"status"}).out, HasSubstr("node daemon  answers\n"));
  EXPECT_EQ(p.cli({"status", "--help"}).code, 0);
}

TEST(PlatformCli, NamesNarrowWhatIsShown) {
  Platform p;
  p.deploy({});
  p.deploy({.name = "g"});
  const std::string instance = p.instances()[0]["id"];
  EXPECT_EQ(p.cli_json({"get", "dev", "cpu2"}).size(), 1u);
  EXPECT_EQ(p.cli_json({"get", "inst", instance})[0]["id"], instance);
  EXPECT_EQ(p.cli_json({"get", "inst", "f"}).size(), 1u);
  EXPECT_EQ(p.cli_json({"get", "rev", "f"}).size(), 1u);
  EXPECT_EQ(p.cli_json({"get", "fn", "-n", "default"}).size(), 2u);
  EXPECT_EQ(p.cli_json({"get", "fn", "-n", "other"}).size(), 0u);
  EXPECT_EQ(p.cli_json({"describe", "-n", "default", "f"})["name"], "f");
  EXPECT_EQ(p.cli_json({"describe", instance})["id"], instance);
  EXPECT_EQ(p.cli_json({"describe", "cpu2"})["id"], "cpu2");
  EXPECT_THAT(p.cli({"describe", "instance", instance}).out, HasSubstr("logs " + instance));
}

TEST(PlatformCli, QuickstartEmptiesNothingThatIsNotItsOwn) {
  const TemporaryFolder folder, other;
  std::ofstream(folder.path + "/precious") << "words";
  const std::string trace = other.path + "/trace";
  std::ofstream(trace) << "1\n";
  const std::vector<std::string> quickstart{"quickstart", "--trace", trace};
  std::vector<std::string> words{program("sluice"), "--data", folder.path};
  words.insert(words.end(), quickstart.begin(), quickstart.end());
  const Ended e = run(words);
  EXPECT_EQ(e.code, 5) << e.err;
  EXPECT_THAT(e.err, HasSubstr(folder.path + ": is not of quickstart's making"));
  EXPECT_TRUE(std::filesystem::exists(folder.path + "/precious"));

  Platform p;
  std::ofstream(p.data + "/up.log") << "of an earlier play that was kept\n";
  const Ended running = p.cli(quickstart);
  EXPECT_EQ(running.code, 5) << running.err;
  EXPECT_THAT(running.err, HasSubstr("a platform runs on " + p.data + "; end it first"));
  EXPECT_EQ(p.cli({"get", "functions"}).code, 0);
}

// Every number has a range: the error names the option, its value and the allowed range.
TEST(PlatformCli, ANumberOutOfItsRangeIsNamedAndNothingIsDone) {
  struct OutOfRange {
    std::vector<std::string> command;
    std::string option, value, allowed;
  };
  const std::vector<OutOfRange> all{
      {{"up"}, "--devices", "-3", "0 to 1024"},
      {{"up"}, "--threads", "-1", "0 to 1024"},
      {{"up"}, "--price-per-core-hour", "-0.5", "0.000000 to 1000000.000000"},
      {{"node", "--data", "/no"}, "--devices", "1025", "0 to 1024"},
      {{"node", "--data", "/no"}, "--price-per-core-hour", "-1", "0.000000 to 1000000.000000"},
      {{"node", "--data", "/no"}, "--first-uid", "0", "1 to 2000000000"},
      {{"node", "--data", "/no"}, "--listen-fd", "-1", "0 to 1023"},
      {{"control", "--data", "/no"}, "--tcp-fd", "9999", "0 to 1023"},
      {{"gateway"}, "--threads", "1025", "0 to 1024"},
      {{"gateway"}, "--listen-fd", "-7", "0 to 1023"},
      {{"get", "decisions"}, "--limit", "0", "1 to 10000"},
      {{"rollback", "f"}, "--to", "-1", "1 to 1000000000"},
      {{"logs", "node"}, "--lines", "0", "1 to 1000000"},
      {{"invoke", "f"}, "--batch", "0", "1 to 1024"},
      {{"load", "f"}, "--rate", "-1", "0.000000 to 1000000.000000"},
      {{"load", "f"}, "--rate", "nan", "0.000000 to 1000000.000000"},
      {{"load", "f"}, "--cv", "0", "0.010000 to 20.000000"},
      {{"load", "f"}, "--scale", "-2", "0.000000 to 1000000.000000"},
      {{"load", "f"}, "--batch", "1025", "1 to 1024"},
      {{"load", "f"}, "--connections", "0", "1 to 20000"},
      {{"profile", "-f", "x"}, "--batches", "257", "1 to 256"},
      {{"profile", "-f", "x"}, "--quotas", "101", "1 to 100"},
      {{"profile", "-f", "x"}, "--sms", "0", "1 to 100"},
      {{"profile", "-f", "x"}, "--seconds", "0", "0.050000 to 600.000000"}};
  for (const OutOfRange& o : all) {
    std::vector<std::string> words = o.command;
    words.insert(words.begin() + 1, {o.option, o.value});
    words.insert(words.begin(), program("sluice"));
    const Ended e = run(words);
    EXPECT_EQ(e.code, 2) << o.command[0] << " " << o.option;
    EXPECT_THAT(e.err, HasSubstr(o.option + ": Value " + o.value + " not in range " + o.allowed));
    EXPECT_EQ(e.out, "") << o.command[0];
  }
}

TEST(PlatformCli, ListingsHaveTheirColumns) {
  Platform p;
  p.deploy({.more = "  slo: {latency: 250ms}\n"});
  const std::string functions = p.cli({"get", "functions"}).out;
  EXPECT_THAT(words_of(first_line(functions)),
              ElementsAre("NAME", "READY", "SM", "QUOTA", "MEM", "SLO", "P95", "VIOL", "RPS",
                          "COLD", "COST/1K", "LAST-DECISION", "AGE"));
  const std::vector<std::string> row = words_of(functions.substr(functions.find('\n') + 1));
  EXPECT_THAT(std::vector(row.begin(), row.begin() + 4), ElementsAre("f", "1/1", "100%", "20%"));
  EXPECT_THAT(std::vector(row.begin() + 5, row.begin() + 8), ElementsAre("250ms", "-", "-"));
  EXPECT_THAT(p.cli({"get", "functions", "--help"}).out, HasSubstr("  VIOL "));
  EXPECT_THAT(p.cli({"get", "instances"}).out, HasSubstr("default/f"));
  EXPECT_THAT(p.cli({"get", "devices"}).out, testing::AllOf(HasSubstr("cpu3"), HasSubstr("cpu/")));
  EXPECT_THAT(p.cli({"get", "revisions", "f"}).out, HasSubstr("100%"));
  EXPECT_THAT(p.cli({"get", "decisions", "f"}).out, HasSubstr("Revision 1 was applied."));
  EXPECT_THAT(p.cli({"describe", "f"}).out, HasSubstr("kind: InferenceFunction"));
  EXPECT_THAT(p.cli({"invoke", "f"}).out, StartsWith("200 in "));
  EXPECT_THAT(words_of(p.cli({"logs"}).out),
              IsSupersetOf({"node", "control", "gateway", "zygote"}));
  EXPECT_THAT(p.cli({"logs", "control", "--lines", "1"}).out, HasSubstr("decision"));
  std::ofstream(p.data + "/logs/control.log.1") << "what was moved aside\n";
  EXPECT_THAT(p.cli({"logs", "control", "--lines", "100000"}).out,
              StartsWith("what was moved aside\n"));
  EXPECT_THAT(words_of(p.cli({"logs"}).out), testing::Not(testing::Contains("control.log")));
  const std::string f = p.instances().front()["id"];
  std::ofstream(p.data + "/logs/" + f + ".log", std::ios::app) << "said by its instance\n";
  EXPECT_THAT(p.cli({"logs", "f"}).out, testing::EndsWith("said by its instance\n"));
  for (const char* ended : {"gone-1-abcde", "gone-1-2-abcde", "gone-2-abcde"})
    std::ofstream(p.data + "/logs/" + ended + ".log") << "said by " << ended << "\n";
  EXPECT_EQ(p.cli({"logs", "gone"}).out, "said by gone-2-abcde\n") << "the last that ended";
  // One frame, without a terminal's codes, if there is no terminal.
  const Ended top = p.cli({"top"});
  EXPECT_EQ(top.code, 0);
  EXPECT_EQ(words_of(first_line(top.out)), words_of(first_line(functions)));  // columns grow
  EXPECT_THAT(top.out, Not(HasSubstr("\033")));
}

TEST(PlatformCli, TopFitsItsTerminalAndQuits) {
  Platform p;
  p.deploy({});
  const std::string sluice = program("sluice");
  winsize size{.ws_row = 8, .ws_col = 40, .ws_xpixel = 0, .ws_ypixel = 0};
  int terminal = -1;
  const pid_t pid = forkpty(&terminal, nullptr, nullptr, &size);
  if (pid == 0) {
    execl(sluice.c_str(), sluice.c_str(), "--data", p.data.c_str(), "top", nullptr);
    _exit(127);
  }
  std::string shown;
  for (char c = 0; shown.find("NAME") == std::string::npos && read(terminal, &c, 1) == 1;)
    shown += c;
  EXPECT_EQ(write(terminal, "q", 1), 1);
  for (char c = 0; read(terminal, &c, 1) == 1;) shown += c;
  int status = 0;
  waitpid(pid, &status, 0);
  close(terminal);
  EXPECT_EQ(status, 0) << shown;
  std::istringstream frame(shown.substr(shown.rfind("\033[J") + 3));
  size_t lines = 0;
  for (std::string line; std::getline(frame, line); ++lines)
    EXPECT_LE(width_of(line.substr(0, line.find('\r'))), 40u) << line;
  EXPECT_LE(lines, 8u) << shown;
}

TEST(PlatformCli, EveryAnswerIsToBeHadAsJson) {
  Platform p;
  const std::string file = p.data + "/f.yaml";
  std::ofstream(file) << p.file_of({});
  const json measured = p.cli_json(
      {"profile", "-f", file, "--batches", "1", "--quotas", "100,50", "--seconds", "0.05"});
  EXPECT_EQ(measured[0]["points"].size(), 2u);
  EXPECT_EQ(p.cli_json({"apply", "--dry-run", "-f", file})[0]["action"], "created");
  EXPECT_EQ(p.cli_json({"apply", "-f", file})[0]["revision"], 1);
  p.wait_until_settled("f", 1);
  EXPECT_EQ(p.cli_json({"get", "functions"})[0]["name"], "f");
  EXPECT_EQ(p.cli_json({"get", "functions", "f"}).size(), 1u);
  const json revision = p.cli_json({"get", "revisions"})[0];
  EXPECT_EQ(revision["percent"], 100);
  EXPECT_EQ(revision["content"], measured[0]["content"]) << "its profile is found by it";
  EXPECT_EQ(p.cli_json({"get", "devices"})[0]["type"], measured[0]["device_type"]);
  EXPECT_FALSE(p.cli_json({"get", "instances"}).empty());
  EXPECT_EQ(p.cli_json({"get", "devices"}).size(), 4u);
  EXPECT_FALSE(p.cli_json({"get", "decisions", "f"}).empty());
  EXPECT_EQ(p.cli_json({"describe", "f"})["instances"].size(), 1u);
  EXPECT_EQ(p.cli_json({"invoke", "f"})["status"], 200);
  EXPECT_EQ(p.cli_json({"top"})["devices"].size(), 4u);
  EXPECT_THAT(p.cli_json({"logs"}), testing::Contains("node"));
  EXPECT_FALSE(p.cli_json({"logs", "node"})["lines"].empty());
  EXPECT_TRUE(p.cli_json({"version"}).contains("version"));
  EXPECT_EQ(p.cli_json({"drain", "cpu3"})["drained"], true);
  EXPECT_EQ(p.cli_json({"undrain", "cpu3"})["drained"], false);
  EXPECT_EQ(p.apply({.request = 30}).code, 0);
  p.wait_until_settled("f", 1);
  EXPECT_EQ(p.cli_json({"rollback", "f"})["revision"], 1);
  EXPECT_EQ(p.cli_json({"delete", "f"})["deleted"], "default/f");
  EXPECT_EQ(p.cli_json({"down"})["instances"], "ended");
  p.launch();
}

// Returns what bash offers at the end of that line.
std::vector<std::string> complete(const std::string& line) {
  const std::string script = "sluice() { " + program("sluice") +
                             " \"$@\"; }; eval \"$(sluice completion)\"; COMP_WORDS=(" + line +
                             "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _sluice; "
                             "printf '%s\\n' \"${COMPREPLY[@]}\"";
  const Ended e = run({"/bin/bash", "-eu", "-c", script});
  EXPECT_EQ(e.code, 0) << e.err;
  EXPECT_EQ(e.err, "");
  return words_of(e.out);
}

TEST(PlatformCli, CompletesInBash) {
  EXPECT_THAT(complete("sluice ro"), ElementsAre("rollback"));
  EXPECT_THAT(complete("sluice ''"), IsSupersetOf({"up", "get", "load", "top"}));
  EXPECT_THAT(complete("sluice get de"), ElementsAre("devices", "decisions"));
  EXPECT_THAT(complete("sluice load --se"), ElementsAre("--seed"));
  EXPECT_THAT(complete("sluice apply --dry"), ElementsAre("--dry-run"));
  EXPECT_THAT(complete("sluice -o json ge"), ElementsAre("get"));
  EXPECT_THAT(complete("sluice get --ou"), ElementsAre("--output"));
}

TEST(PlatformCli, CompletesValues) {
  const TemporaryFolder folder;
  std::ofstream(folder.path + "/function.yaml") << "";
  EXPECT_THAT(complete("sluice -o js"), ElementsAre("json"));
  EXPECT_THAT(complete("sluice get functions --output ''"), ElementsAre("table", "json"));
  EXPECT_THAT(complete("sluice load --arrivals ''"), ElementsAre("constant", "poisson", "gamma"));
  EXPECT_THAT(complete("sluice up --policy ex"), ElementsAre("exclusive"));
  EXPECT_THAT(complete("sluice up --plan fi"), ElementsAre("fifo"));
  EXPECT_THAT(complete("sluice apply -f " + folder.path + "/fun"),
              ElementsAre(folder.path + "/function.yaml"));
  EXPECT_THAT(complete("sluice --data " + folder.path.substr(0, folder.path.size() - 1)),
              testing::Contains(folder.path));
  EXPECT_THAT(complete("sluice completion z"), ElementsAre("zsh"));
}

TEST(PlatformCli, CompletesInZsh) {
  if (!std::filesystem::exists("/usr/bin/zsh")) GTEST_SKIP() << "there is no zsh";
  // As zsh would call it at the end of "sluice WORDS"; compadd works in a completion only.
  const auto complete_in_zsh = [](const std::string& words) {
    const std::string script = "sluice() { " + program("sluice") +
                               " \"$@\"; }; eval \"$(sluice completion zsh)\"; "
                               "compadd() { shift; print -l -- \"offered:\" \"$@\"; }; "
                               "words=(sluice " +
                               words + "); CURRENT=$#words; _sluice";
    const Ended e = run({"/usr/bin/zsh", "-f", "-c", script});
    EXPECT_EQ(e.code, 0) << e.err;
    return words_of(e.out);
  };
  EXPECT_THAT(complete_in_zsh("-o js"), ElementsAre("offered:", "table", "json"));
  EXPECT_THAT(complete_in_zsh("version x"), ElementsAre()) << "not even an empty word";
}

TEST(PlatformCli, CompletesTheNamesOfWhatThereIs) {
  Platform p;
  p.deploy({.name = "devices-of-mine"});
  p.deploy({.name = "resnet"});
  const std::string sluice = "sluice --data " + p.data + " ";
  for (const std::string command : {"describe", "rollback", "delete", "invoke", "load", "get dec"})
    EXPECT_THAT(complete(sluice + command + " res"), ElementsAre("resnet")) << command;
  EXPECT_THAT(complete(sluice + "load resnet dev"), ElementsAre("devices-of-mine"));
  EXPECT_THAT(complete(sluice + "get dev"), ElementsAre("devices")) << "a noun comes first";
  for (const std::string command : {"drain", "undrain"})
    EXPECT_THAT(complete(sluice + command + " ''"), IsSupersetOf({"cpu0", "cpu1", "cpu2", "cpu3"}));
  const std::string instance = p.instances("resnet")[0]["id"];
  EXPECT_THAT(complete(sluice + "logs res"), ElementsAre("resnet", instance));
  EXPECT_THAT(complete("sluice --data /no/such describe res"), ElementsAre());
  // The data directory may stand behind the command, too, and be given with "=".
  EXPECT_THAT(complete("sluice describe --data " + p.data + " res"), ElementsAre("resnet"));
  EXPECT_THAT(complete("sluice --data = " + p.data + " describe res"), ElementsAre("resnet"));
  EXPECT_THAT(complete(sluice + "get devices cpu1"), ElementsAre("cpu1"));
  EXPECT_THAT(complete(sluice + "describe device cpu1"), ElementsAre("cpu1"));
  EXPECT_THAT(complete(sluice + "run --device cpu1"), ElementsAre("cpu1"));
  EXPECT_THAT(complete(sluice + "resize res"), ElementsAre(instance));
}

TEST(PlatformCli, NounsHaveShortNames) {
  Platform p;
  p.deploy({});
  for (const auto& [many, others] :
       std::map<std::string, std::vector<std::string>>{{"functions", {"function", "fn"}},
                                                       {"revisions", {"revision", "rev"}},
                                                       {"instances", {"instance", "inst"}},
                                                       {"devices", {"device", "dev"}},
                                                       {"decisions", {"decision", "dec"}}})
    for (const std::string& word : others)
      EXPECT_EQ(words_of(first_line(p.cli({"get", word}).out)),
                words_of(first_line(p.cli({"get", many}).out)));
  expect_fails(p, {{"get", "pods"}, 2, "'pods' is none of functions (fn), revisions (rev), "});
  EXPECT_EQ(p.cli({"get", "fn", "--names"}).out, "f\n");
  EXPECT_EQ(p.cli({"get", "dev", "--names"}).out, "cpu0\ncpu1\ncpu2\ncpu3\n");
  expect_fails(p, {{"get", "rev", "--names"}, 2, "--names: revisions have none; functions"});
}

TEST(PlatformCli, LoadsOfEveryKind) {
  Platform p;
  p.deploy({.replicas = 2});
  const auto load = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"load", "f", "--duration", "500ms"});
    const json r = p.cli_json(flags)[0];
    EXPECT_EQ(r["ok"], r["requests"]) << r;
    for (const char* key : {"late", "shed", "failed"}) EXPECT_EQ(r[key], 0) << key;
    for (const char* key : {"p50_ms", "p95_ms", "p99_ms"}) EXPECT_GT(r[key], 0) << key;
    return r["requests"].get<int>();
  };
  // Its sending times are drawn beforehand: their number depends only on the seed.
  EXPECT_NEAR(load({"--arrivals", "constant", "--rate", "80"}), 40, 1);
  EXPECT_EQ(load({"--rate", "40", "--seed", "3"}), load({"--rate", "40", "--seed", "3"}));
  EXPECT_GT(load({"--arrivals", "gamma", "--cv", "2", "--rate", "40"}), 0);
  std::ofstream(p.data + "/rates") << "250ms 40\n250ms 120 # twice as fast below\n";
  EXPECT_NEAR(load({"--arrivals", "constant", "--rates", p.data + "/rates", "--scale", "2"}), 80,
              1);
  const Ended table = p.cli({"load", "f", "--rate", "20", "--duration", "500ms"});
  EXPECT_THAT(
      words_of(first_line(table.out)),
      ElementsAre("NAME", "REQUESTS", "OK", "SHED", "FAILED", "LATE", "P50", "P95", "P99", "VIOL"));
}

TEST(PlatformCli, ALoadThatNobodyAnswersFails) {
  Platform p;
  p.deploy({.more = "  token: secret\n"});
  const std::vector<std::string> load{"load",       "f",        "--rate",     "50",
                                      "--arrivals", "constant", "--duration", "200ms"};
  const Ended denied = p.cli(load);
  EXPECT_EQ(denied.code, 1);
  EXPECT_THAT(denied.out, HasSubstr("f: 401 "));
  EXPECT_THAT(denied.err, HasSubstr("f: none of 10 requests was answered with 200"));
  std::vector<std::string> with_token = load;
  with_token.insert(with_token.end(), {"--token", "secret"});
  EXPECT_EQ(p.cli(with_token).code, 0);
}

TEST(PlatformCli, OneEndpointHasAllMetricsAndPromtoolFindsNoFault) {
  Platform p;
  p.deploy({.replicas = 2});
  p.deploy({.name = "g"});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(p.ask()["status"], 200);
  p.until("/v1/report", [](const json& r) { return r["functions"][0]["ok"] == 3; });

  std::ifstream address(p.data + "/run/api.address"), secret(p.data + "/token");
  std::string at, token;
  address >> at;
  secret >> token;
  wire::HttpClient api(*wire::parse_endpoint(at), kPatience);
  EXPECT_EQ(api.call(verb::get, "/metrics")->result_int(), 401);
  api.set_token(token);
  const auto answer = api.call(verb::get, "/metrics");
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->result_int(), 200);
  const std::string& text = answer->body();
  EXPECT_THAT(text, HasSubstr("sluice_requests_ended_total{namespace=\"default\",function=\"f\","
                              "outcome=\"ok\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("sluice_request_duration_seconds_count{namespace=\"default\","
                              "function=\"f\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("sluice_instances_ready{namespace=\"default\",function=\"g\"} 1\n"));
  for (const char* name : {"f", "g"})
    for (const json& i : p.instances(name))
      EXPECT_THAT(text, HasSubstr("instance=\"" + i["id"].get<std::string>() + "\""));
  EXPECT_THAT(text, HasSubstr("sluice_device_reserved_ratio{device=\"cpu3\"}"));
  const Ended checked = run({"/usr/bin/promtool", "check", "metrics"}, text);
  EXPECT_EQ(checked.code, 0) << checked.out << checked.err << text;
}

std::string function_file(const Platform& p, const FunctionText& f) {
  std::string path = p.data + "/" + f.name + ".yaml";
  std::ofstream(path) << p.file_of(f);
  return path;
}

TEST(PlatformCli, WaitsUntilARevisionServesOrIsGivenUp) {
  Platform p;
  const Ended first = p.cli({"apply", "--wait", "-f", function_file(p, {})});
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("default/f revision 1 serves\n"));
  EXPECT_EQ(p.function()["replicas"]["ready"], 1);
  const Ended second = p.cli({"apply", "--wait", "-f", function_file(p, {.request = 30})});
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(p.function()["serving"], 2);
  const Ended back = p.cli({"rollback", "f", "--wait"});
  EXPECT_EQ(back.code, 0) << back.err;
  EXPECT_THAT(back.out, HasSubstr("default/f revision 1 serves\n"));
  EXPECT_EQ(p.function()["serving"], 1);

  const Ended broken = p.cli({"apply", "--wait", "-f", function_file(p, {.words = "fail"})});
  EXPECT_EQ(broken.code, 1);
  EXPECT_THAT(broken.err, HasSubstr("default/f revision 3 is given up: "));
  EXPECT_THAT(broken.err, HasSubstr("not a model"));
  const Ended never =
      p.cli({"apply", "--wait", "-f", function_file(p, {.name = "never", .words = "fail"})});
  EXPECT_EQ(never.code, 1);
  EXPECT_THAT(never.err, HasSubstr("default/never revision 1 is given up: "));
  const Ended late = p.cli({"apply", "--wait", "--timeout", "100ms", "-f",
                            function_file(p, {.name = "late", .words = "deaf"})});
  EXPECT_EQ(late.code, 7);
  EXPECT_THAT(late.err, HasSubstr("default/late revision 1 does not serve yet after 100ms: "));
}

TEST(PlatformCli, WaitsForACanaryWithoutTrafficUntilItIsReady) {
  Platform p;
  p.deploy({});
  const Ended canary =
      p.cli({"apply", "--wait", "-f",
             function_file(p, {.request = 30, .more = "  canaryTrafficPercent: 0\n"})});
  EXPECT_EQ(canary.code, 0) << canary.err;
  EXPECT_THAT(canary.out, HasSubstr("default/f revision 2 serves\n"));
  const json f = p.function();
  EXPECT_EQ(f["serving"], 1);
  EXPECT_EQ(f["newest_ready"], true);
  const Ended deaf =
      p.cli({"apply", "--wait", "--timeout", "2s", "-f",
             function_file(p, {.words = "deaf", .more = "  canaryTrafficPercent: 0\n"})});
  EXPECT_EQ(deaf.code, 7) << "not before it is ready: " << deaf.out;
}

TEST(PlatformCli, DeletesWhatFilesName) {
  Platform p;
  const std::string f = function_file(p, {}), g = function_file(p, {.name = "g"});
  EXPECT_EQ(p.cli({"apply", "--wait", "-f", f, "-f", g}).code, 0);
  EXPECT_EQ(p.cli({"delete", "-f", f, "-f", g, "-f", f}).out,
            "default/f deleted\ndefault/g deleted\n");
  EXPECT_EQ(p.cli_json({"get", "functions"}).size(), 0u);
  EXPECT_EQ(p.cli({"apply", "-f", f, "-f", g}).code, 0);
  const json deleted = p.cli_json({"delete", "-f", f, "-f", g});
  ASSERT_EQ(deleted.size(), 2u) << deleted;
  EXPECT_EQ(deleted[1]["deleted"], "default/g");
  expect_fails(p, {{"delete", "-f", f}, 3, "function 'default/f' not found; there is none"});
}

// A command that runs until a signal ends it.
class Following {
 public:
  Following(const Platform& p, const std::vector<std::string>& words)
      : out_(p.data + "/following") {
    std::ofstream made(out_);
    pid_ = fork();
    if (pid_ != 0) return;
    std::vector<std::string> all{program("sluice"), "--data", p.data};
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> argv;
    for (std::string& w : all) argv.push_back(w.data());
    argv.push_back(nullptr);
    dup2(open(out_.c_str(), O_WRONLY | O_TRUNC | O_APPEND | O_CLOEXEC), STDOUT_FILENO);
    dup2(STDOUT_FILENO, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  ~Following() {
    if (pid_ != 0) end(SIGKILL);
  }
  Following(const Following&) = delete;
  // Returns its exit code, 128 + signal if one ended it.
  int end(int signal) {
    kill(pid_, signal);
    int status = 0;
    waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  std::string printed() const {
    return (std::ostringstream() << std::ifstream(out_).rdbuf()).str();
  }
  void prints(const std::string& text) const {
    EXPECT_TRUE(eventually("'" + text + "' to be printed",
                           [&] { return printed().find(text) != std::string::npos; }));
  }

 private:
  std::string out_;
  pid_t pid_ = 0;
};

TEST(PlatformCli, FollowsDecisionsListingsAndLogs) {
  Platform p;
  p.deploy({});
  const Ended events = p.cli({"events", "f"});
  const size_t applied = events.out.find("Revision 1 was applied."),
               started = events.out.find("start");
  EXPECT_LT(applied, started) << "newest last: " << events.out;
  const std::string one = p.cli({"events", "f", "-o", "json", "--limit", "1"}).out;
  EXPECT_TRUE(json::parse(one).contains("reason")) << one;
  {
    const Following decisions(p, {"events", "-f", "f"});
    decisions.prints("Revision 1 was applied.");
    EXPECT_EQ(p.apply({.request = 30}).code, 0);
    decisions.prints("Revision 2 was applied.");
  }
  {
    const Following functions(p, {"get", "functions", "-w"});
    functions.prints("f ");
    p.deploy({.name = "g"});
    functions.prints("g ");
  }
  const Following log(p, {"logs", "-f", "control", "--lines", "1"});
  log.prints("decision");
  EXPECT_EQ(p.apply({.name = "h"}).code, 0);
  log.prints("default/h");
}

TEST(PlatformCli, InvokePrintsValuesAndTakesABody) {
  Platform p;
  p.deploy({});
  EXPECT_THAT(p.cli({"invoke", "f", "--print"}).out,
              HasSubstr("  y FP32 [1,3]\n    0.5 -1.0 2.0\n"));
  EXPECT_THAT(p.cli({"invoke", "f"}).out, Not(HasSubstr("-1.0")));
  const std::string body = p.data + "/body.json";
  std::ofstream(body) << "{}";
  const json with_body = p.cli_json({"invoke", "f", "--body", body});
  EXPECT_EQ(with_body["answer"]["sum"], p.ask()["sum"]) << "the file is sent as it is";
  EXPECT_EQ(p.cli({"load", "f", "--body", body, "--rate", "20", "--duration", "200ms"}).code, 0);
  expect_fails(p, {{"load", "f", "--body", "/no/such"}, 3, "/no/such: cannot be read"});
}

TEST(PlatformCli, InvokeShowsAnAnswerThatIsNotANumber) {
  Platform p;
  p.deploy({.words = "nan"});
  EXPECT_THAT(p.cli({"invoke", "f", "--print"}).out, HasSubstr("0.5 \"NaN\" 2.0\n"));
  EXPECT_EQ(p.cli_json({"invoke", "f"})["answer"]["outputs"][0]["data"][1], "NaN");
}

TEST(PlatformCli, ALoadFailsAboveTheFailuresThatAreAllowed) {
  Platform p;
  p.deploy({.more = "  maxQueue: 2\n"});
  const auto allowing = [&](const std::string& percent) {
    return p.cli({"load", "f", "--rate", "50", "--arrivals", "constant", "--duration", "1s",
                  "--connections", "3", "--max-failures", percent});
  };
  EXPECT_EQ(allowing("0").code, 0) << "one is answered, two wait";
  // While the instance is busy two requests wait, which are answered, and the others are shed.
  HeldRequest held(p);
  busy_one(p);
  auto load = std::async(std::launch::async, allowing, "0");
  p.until("/v1/report", [](const json& r) { return r["functions"][0]["shed"] > 0; });
  held.answer();
  const Ended failed = load.get();
  EXPECT_EQ(failed.code, 1) << failed.out;
  EXPECT_THAT(failed.err, HasSubstr("requests were shed or failed; --max-failures allows 0.00 %"));
  expect_fails(p, {{"load", "f", "--max-failures", "101"}, 2, "--max-failures"});
}

TEST(PlatformCli, ATokenLeavesThePlatformNowhere) {
  Platform p;
  const std::string secret = "s3cr3t-words",
                    file = function_file(p, {.more = "  token: " + secret + "\n"});
  std::string shown;
  const auto show = [&](const std::vector<std::string>& words) {
    const Ended ended = p.cli(words);
    shown += ended.out + ended.err;
  };
  show({"apply", "--dry-run", "-f", file});
  show({"apply", "--wait", "-f", file});
  const std::string other =
      function_file(p, {.name = "f", .more = "  token: other-" + secret + "\n"});
  show({"apply", "--dry-run", "-f", other});
  show({"invoke", "f"});
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"get", "functions", "-o", "json"},
        {"get", "revisions", "-o", "json"},
        {"get", "decisions", "-o", "json"},
        {"get", "instances", "-o", "json"},
        {"describe", "f"},
        {"describe", "f", "-o", "json"},
        {"logs", "control"},
        {"logs", "gateway"},
        {"logs", "node"}})
    show(words);
  EXPECT_THAT(shown, Not(HasSubstr(secret)));
  EXPECT_THAT(p.cli({"describe", "f"}).out, HasSubstr("# token: set; it is not shown"));
}

TEST(PlatformCli, AProfileIsQuickUnlessAllOfItIsAskedFor) {
  Platform p;
  const std::string file = function_file(p, {});
  const Ended quick = p.cli({"profile", "-f", file, "--batches", "1,2"});
  EXPECT_EQ(quick.code, 0) << quick.err;
  EXPECT_THAT(quick.err, HasSubstr("1/6  batch 1, sm 100%, quota 100%: "));
  EXPECT_THAT(quick.err, HasSubstr("6/6  batch 2, sm 100%, quota 10%: "));
  EXPECT_THAT(quick.err, HasSubstr(" s left\n"));
  EXPECT_THAT(quick.out, HasSubstr("PER-S"));
  EXPECT_EQ(p.cli_json({"profile", "-f", file, "--full", "--batches", "1", "--seconds",
                        "0.05"})[0]["points"]
                .size(),
            5u);
}

TEST(PlatformCli, AProfileHasTheUtilisationOfItsSlice) {
  Platform p;
  const std::string file = function_file(p, {.words = "busy"});
  const json point = p.cli_json({"profile", "-f", file, "--batches", "1", "--quotas", "100",
                                 "--seconds", "0.3"})[0]["points"][0];
  EXPECT_GE(point["utilisation"], 200) << point;
  EXPECT_EQ(point["sm_occupancy"], 0) << "a CPU has none";
}

TEST(PlatformCli, AModelIsProfiledByTheInputsOfItsFunctionsFileAlone) {
  Platform p;
  const std::string model = p.data + "/alone.pt", file = p.data + "/alone.yaml";
  std::filesystem::copy_file(p.model(""), model);
  std::ofstream(file) << "apiVersion: sluice.dev/v1alpha1\nkind: InferenceFunction\n"
                         "metadata: {name: alone}\nspec:\n  model:\n    path: "
                      << model
                      << "\n    inputs: [{name: x, datatype: FP32, shape: [-1, 4]}]\n"
                         "    outputs: [{name: x, datatype: FP32, shape: [-1, 4]}]\n";
  const json kept = p.cli_json(
      {"profile", "-f", file, "--batches", "1", "--quotas", "100", "--seconds", "0.05"})[0];
  EXPECT_EQ(kept["points"].size(), 1u);
  EXPECT_EQ(kept["model"], model);
}

TEST(PlatformCli, AProfileRunsBesideFunctionsWhereThereIsRoom) {
  Platform p;
  p.deploy({.replicas = 4, .request = 60});
  const std::string g = function_file(p, {.name = "g"});
  const std::vector<std::string> profile{"profile", "-f", g, "--batches", "1", "--seconds", "0.05"};
  const json points = p.cli_json(profile)[0]["points"];
  ASSERT_EQ(points.size(), 2u) << points;
  EXPECT_EQ(points[0]["quota"], 400) << "what the functions leave";
  EXPECT_EQ(points[1]["quota"], 100);
  EXPECT_THAT(p.cli(profile).out, HasSubstr("The largest quota measured is 40%; larger ones"));

  p.deploy({.name = "h", .replicas = 4, .request = 30});
  const Ended full = p.cli(profile);
  EXPECT_EQ(full.code, 5);
  EXPECT_THAT(full.err, HasSubstr("no device has a fifth of its time left"));
  EXPECT_THAT(full.err, testing::ContainsRegex("\n  cpu3: [fh]-1-.*, [fh]-1-"))
      << "what would make room";
}

TEST(PlatformCli, ADeviceShowsItsTypeAndHasThePriceAndTheWindowOfTheFlags) {
  std::string type;
  {
    Platform p;
    type = p.cli_json({"get", "devices"})[0]["type"];
  }
  Platform p({"--arbiter", "introspective", "--price", type + "=7"});
  const json device = p.cli_json({"get", "devices"})[0];
  EXPECT_EQ(device["type"], type);
  EXPECT_EQ(device["price_per_hour"], 7);
  EXPECT_EQ(device["window_us"], 5000);
  EXPECT_THAT(p.cli({"describe", "device", "cpu0"}).out,
              testing::AllOf(HasSubstr(type), HasSubstr("arbiter: introspective\n")));
  EXPECT_THAT(p.cli({"up", "--price", "cpu/500m=-1"}).err,
              HasSubstr("--price: in \"cpu/500m=-1\" the price is no number from 0 to 1000000"));
}

TEST(PlatformCli, AProfileKeepsWhatItMeasuredBeforeCtrlC) {
  Platform p;
  const std::string file = function_file(p, {});
  Following profile(p, {"profile", "-f", file, "--full", "--seconds", "0.5"});
  profile.prints("1/20  batch 1");
  EXPECT_EQ(profile.end(SIGINT), 1);
  EXPECT_THAT(profile.printed(), HasSubstr(" of 20 points are kept"));
  const json kept = p.get("/v1/profiles");
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_GE(kept.begin()->at("points").size(), 1u);
  EXPECT_LT(kept.begin()->at("points").size(), 20u);
}

TEST(PlatformCli, AKilledProfileGoesOnWithItsTrials) {
  Platform p;
  const std::vector<std::string> words{"profile", "-f",        function_file(p, {}),
                                       "--full",  "--seconds", "0.3"};
  Following killed(p, words);
  killed.prints("3/20  batch ");
  EXPECT_EQ(killed.end(SIGKILL), 128 + SIGKILL);
  EXPECT_EQ(p.get("/v1/profiles"), json::array());
  const Ended again = p.cli(words);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, testing::ContainsRegex("goes on with ([3-9]|1[0-9]) points measured"));
  const json stored = p.get("/v1/profiles")[0];
  EXPECT_EQ(stored["points"].size(), 20u);
  EXPECT_THAT(stored["conditions"].get<std::string>(), HasSubstr("Sluice "));
  EXPECT_TRUE(std::filesystem::is_empty(p.data + "/trials"));
}

// The instance of the second model never gets ready.
TEST(PlatformCli, AProfileThatIsInterruptedWhileItWaitsPrintsWhatIsStored) {
  Platform p;
  const std::string f = function_file(p, {}), g = function_file(p, {.name = "g", .words = "deaf"});
  Following profile(p, {"-o", "json", "profile", "--batches", "1", "--quotas", "100", "--seconds",
                        "0.05", "-f", f, "-f", g});
  p.until("/v1/instances", [](const json& all) {
    return std::ranges::any_of(all, [](const json& i) {
      return i["function"] == "sluice-profile/g" && i["state"] == "starting";
    });
  });
  EXPECT_EQ(profile.end(SIGINT), 1);
  const std::string printed = profile.printed();
  EXPECT_THAT(printed, HasSubstr("interrupted before the first point; nothing is kept"));
  const json stored = json::parse(printed.substr(0, printed.rfind(']') + 1), nullptr, false);
  ASSERT_EQ(stored.size(), 1u) << printed;
  EXPECT_EQ(stored[0]["points"].size(), 1u);
}

// The lines of a /metrics without comments, and the names that it explains.
struct Metrics {
  std::set<std::string> families;
  std::vector<std::string> samples;
};

void add_metrics(Metrics& all, const std::string& text) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("# TYPE "))
      all.families.insert(words_of(line)[2]);
    else if (!line.starts_with("#"))
      all.samples.push_back(line);
  }
}

TEST(PlatformCli, TheOperationsPageNamesMetricsThatExist) {
  Platform p;
  p.deploy({});
  EXPECT_EQ(p.ask()["status"], 200);
  Metrics all;
  wire::HttpClient api({.path = p.data + "/run/api.sock"}, kPatience),
      gateway(p.gateway(), kPatience);
  for (wire::HttpClient* server : {&api, &gateway}) {
    const auto answer = server->call(verb::get, "/metrics");
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    ASSERT_EQ(answer->result_int(), 200);
    add_metrics(all, answer->body());
  }
  const std::string page =
      (std::ostringstream() << std::ifstream(SLUICE_SOURCE "/docs/operations.md").rdbuf()).str();
  // `name`, or `name{label="value"}`.
  const std::regex metric("`((?:sluice|nv)_[a-z0-9_]+)(?:\\{([^}]*)\\})?");
  int named = 0;
  for (std::sregex_iterator at(page.begin(), page.end(), metric), end; at != end; ++at, ++named) {
    const std::string name = (*at)[1], label = (*at)[2];
    EXPECT_TRUE(all.families.contains(name)) << name << " is in docs/operations.md alone";
    const bool sampled =
        label.empty() || std::ranges::any_of(all.samples, [&](const auto& line) {
          return line.starts_with(name + "{") && line.find(label) != std::string::npos;
        });
    EXPECT_TRUE(sampled) << name << " has no " << label;
  }
  EXPECT_GT(named, 5) << "the page names metrics";
}

TEST(PlatformCli, ExplainSaysWhatAFieldOfAFunctionsFileMeans) {
  const Platform p;
  EXPECT_EQ(p.cli({"explain", "spec.slo.latency"}).out,
            "slo.latency: the objective, from intended send to last byte\n"
            "  allowed: 100us to 1h\n  default: must stand in slo\n");
  EXPECT_THAT(p.cli({"explain", "slo"}).out, HasSubstr("slo.percentile  1 to 100"));
  EXPECT_THAT(p.cli({"explain", "--training"}).out, HasSubstr("leastDevices"));
  const Ended unknown = p.cli({"explain", "slo.latenci"});
  EXPECT_EQ(unknown.code, 3);
  EXPECT_THAT(unknown.err, HasSubstr("is no field of a function file; did you mean 'slo.latency'"));
  EXPECT_EQ(json::parse(p.cli({"explain", "priority", "-o", "json"}).out)[0]["default"], "0");
  EXPECT_EQ(json::parse(p.cli({"explain", "--schema"}).out)["oneOf"].size(), 2u);
}

}  // namespace
}  // namespace sluice
