// Instances that are forks of a template of Python (`imports`), under a real daemon: they are what
// the exec of their command would be, and a template has nothing of the function's but its modules.
#include <sys/stat.h>

#include "tests/support/program.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// Answers any POST with what it finds of itself.
constexpr char kServer[] = R"(
import http.server, json, os, random, sys
imported = "xml.dom.minidom" in sys.modules  # before the script does so
class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        if self.path == "/raise":
            os._exit(7)
        descriptors = [fd for fd in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + fd)]
        text = json.dumps({"pid": os.getpid(), "parent": os.getppid(), "uid": os.getuid(),
            "folder": os.getcwd(), "words": sys.argv, "path": sys.path[0], "imported": imported,
            "name": __name__, "file": __file__, "main": sys.modules["__main__"].imported,
            "random": random.random(), "session": os.getsid(0), "environment": dict(os.environ),
            "status": open("/proc/self/status").read(),
            "descriptors": sorted(os.readlink("/proc/self/fd/" + fd) for fd in descriptors)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *words):
        pass
print("runs", *sys.argv[1:])
if "crash" in sys.argv: raise ValueError("no such weight")
if "leave" in sys.argv: sys.exit(3)
http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Server).serve_forever()
)";

struct NodePython : testing::Test {
  NodePython() {
    fs::create_directory(folder);
    std::ofstream(folder / "server.py") << kServer;
    fs::permissions(folder, fs::perms(0755));
  }
  json program(const std::vector<std::string>& words = {}) const {
    std::vector<std::string> command{"/usr/bin/python3", "server.py"};
    command.insert(command.end(), words.begin(), words.end());
    return {{"command", command},
            {"environment", {{"MODE", "fast"}}},
            {"imports", {"http.server", "random", "xml.dom.minidom"}},
            {"folder", folder.string()},
            {"port", 0}};
  }
  json start(const std::string& id, const json& program,
             const std::string& function = "default/f") {
    return node.call(verb::post, "/v1/instances",
                     {{"id", id},
                      {"function", function},
                      {"device", "cpu0"},
                      {"slice", Node::slice(100)},
                      {"program", program}});
  }
  // Starts it, and returns what it says of itself.
  json ready(const std::string& id, const json& program,
             const std::string& function = "default/f") {
    const json started = start(id, program, function);
    EXPECT_EQ(started["status"], 202) << started;
    return ask(node.wait(id, "ready"));
  }
  static json ask(const json& instance, const std::string& target = "/") {
    wire::HttpClient client(*wire::parse_endpoint(instance["socket"].get<std::string>()),
                            Seconds(100));
    const auto answer = client.json(verb::post, target);
    return answer.ok() ? *answer : json{{"error", answer.error().message}};
  }
  static std::string read(const fs::path& path) {
    std::ifstream file(path);
    return (std::ostringstream() << file.rdbuf()).str();
  }
  std::string log_of(const std::string& id) const {
    return read(node.data + "/logs/" + id + ".log");
  }

  Node node;
  const fs::path folder = fs::path(node.data) / "folder";
};

TEST_F(NodePython, AForkIsWhatItsCommandWouldBe) {
  const json self = ready("a", program({"$(PORT)", "-v"}));
  const json instance = node.get("/v1/instances/a");
  const std::string at = instance["socket"], port = at.substr(at.find(':') + 1);
  EXPECT_EQ(self["pid"], instance["pid"]);
  EXPECT_EQ(self["words"], json({"server.py", port, "-v"}));
  EXPECT_EQ(self["folder"], folder.string());
  EXPECT_EQ(self["path"], folder.string());
  EXPECT_EQ(self["name"], "__main__");
  EXPECT_EQ(self["file"], (folder / "server.py").string());
  EXPECT_EQ(self["imported"], true);
  EXPECT_EQ(self["main"], true) << "the script is the module __main__";
  EXPECT_EQ(self["session"], self["pid"]);
  EXPECT_EQ(log_of("a"), "runs " + port + " -v\n");
  const json& environment = self["environment"];
  EXPECT_EQ(environment["MODE"], "fast");
  EXPECT_EQ(environment["PORT"], port);
  EXPECT_EQ(environment["SLUICE_INSTANCE"], "a");
  EXPECT_EQ(environment["SLUICE_PERMIT_SOCKET"], node.data + "/run/p/a/sock");
  // Nothing of the template's or the daemon's is open in it.
  for (const json& open : self["descriptors"]) {
    const std::string what = open;
    EXPECT_TRUE(what == "/dev/null" || what == node.data + "/logs/a.log" ||
                what.starts_with("socket:"))
        << what;
  }
  EXPECT_LE(self["descriptors"].size(), 5u) << "0, 1, 2, its port and this connection";
  const std::string status = self["status"];
  EXPECT_NE(status.find("NoNewPrivs:\t1\n"), status.npos);
  if (geteuid() != 0) return;
  EXPECT_NE(status.find("CapEff:\t0000000000000000\n"), status.npos);
  EXPECT_EQ(self["uid"], instance["uid"]);
  EXPECT_NE(self["uid"], 0);
}

TEST_F(NodePython, InstancesOfAFunctionHaveOneTemplateAndDiffer) {
  const json a = ready("a", program()), b = ready("b", program({"other"}));
  EXPECT_EQ(a["parent"], b["parent"]);
  EXPECT_EQ(a["uid"], b["uid"]);
  EXPECT_NE(a["pid"], b["pid"]);
  EXPECT_NE(a["random"], b["random"]);
  EXPECT_NE(a["environment"]["PORT"], b["environment"]["PORT"]);
  const json c = ready("c", program(), "default/g");
  EXPECT_NE(c["parent"], a["parent"]) << "functions share none";
  if (geteuid() == 0) {
    EXPECT_NE(c["uid"], a["uid"]);
  }
}

TEST_F(NodePython, ASecretReachesTheInstanceAndNotItsTemplate) {
  const fs::path secrets = fs::path(node.data) / "secrets";
  fs::create_directory(secrets);
  fs::permissions(secrets, fs::perms(0700));
  std::ofstream(secrets / "key") << "hunter2";
  fs::permissions(secrets / "key", fs::perms(0600));
  json with = program();
  with["secrets"] = {{"KEY", "key"}};
  const json self = ready("a", with);
  EXPECT_EQ(self["environment"]["KEY"], "hunter2");
  const std::string environment = read("/proc/" + self["parent"].dump() + "/environ");
  EXPECT_NE(environment.find("PATH="), environment.npos);
  for (const char* text : {"hunter2", "MODE=", "SLUICE_PERMIT_SOCKET"})
    EXPECT_EQ(environment.find(text), environment.npos) << text;
}

// Another process of its uid, such as an instance, cannot read its memory.
TEST_F(NodePython, ATemplateHasNoPrivilegesAndCannotBeTraced) {
  if (geteuid() != 0) GTEST_SKIP() << "only root has uids for instances";
  const json self = ready("a", program());
  const std::string parent = "/proc/" + self["parent"].dump();
  const std::string status = read(parent + "/status");
  const std::string uid = self["uid"].dump();
  EXPECT_NE(status.find("Uid:\t" + uid + "\t" + uid + "\t" + uid + "\t" + uid), status.npos);
  EXPECT_NE(status.find("CapPrm:\t0000000000000000\n"), status.npos);
  EXPECT_NE(status.find("NoNewPrivs:\t1\n"), status.npos);
  struct stat environment {};
  ASSERT_EQ(stat((parent + "/environ").c_str(), &environment), 0);
  EXPECT_EQ(environment.st_uid, 0u) << "the kernel gives an undumpable process's files to root";
}

TEST_F(NodePython, AModuleThatIsMissingIsNamed) {
  json with = program();
  with["imports"] = {"random", "torhc"};
  EXPECT_EQ(start("a", with)["status"], 202);
  const json gone = node.wait("a", "gone");
  EXPECT_EQ(gone["error"], "server.imports: torhc: ModuleNotFoundError: No module named 'torhc'");
  EXPECT_EQ(gone["node_fault"], false);
  ready("b", program());  // another template
}

TEST_F(NodePython, AKilledTemplateIsReplacedAtTheNextStart) {
  const json a = ready("a", program());
  const Fd its = pidfd_of(a["parent"]);
  kill(a["parent"].get<pid_t>(), SIGKILL);
  ASSERT_TRUE(ends_within(its, Seconds(100)));
  const json b = ready("b", program());
  EXPECT_NE(b["parent"], a["parent"]);
  EXPECT_EQ(ask(node.get("/v1/instances/a"))["pid"], a["pid"]) << "its instances go on";
  node.remove("a");
  EXPECT_EQ(node.wait("a", "gone")["error"], "signal 15 (Terminated)");
}

TEST_F(NodePython, ItsEndIsSeenAndItsLogSaysWhy) {
  start("a", program({"crash"}));
  const std::string crashed = node.wait("a", "gone")["error"];
  EXPECT_TRUE(crashed.starts_with("exit code 1; its log ends: ")) << crashed;
  EXPECT_TRUE(crashed.ends_with("ValueError: no such weight")) << crashed;
  start("b", program({"leave"}));
  EXPECT_EQ(node.wait("b", "gone")["error"], "exit code 3; its log ends: runs leave");
  const json c = ready("c", program());
  kill(c["pid"].get<pid_t>(), SIGKILL);
  EXPECT_EQ(node.wait("c", "gone")["error"], "signal 9 (Killed); its log ends: runs");
  const json d = ready("d", program());
  node.remove("d");
  EXPECT_EQ(node.wait("d", "gone")["error"], "signal 15 (Terminated)");
  EXPECT_EQ(node.get("/v1/instances/d")["stopped"], true);
}

TEST_F(NodePython, AnInstanceOutlivesTheDaemonAndItsTemplateDoesNot) {
  const json a = ready("a", program());
  const Fd its = pidfd_of(a["parent"]);
  node.restart();
  EXPECT_TRUE(ends_within(its, Seconds(100)));
  EXPECT_EQ(ask(node.wait("a", "ready"))["pid"], a["pid"]);
  const json b = ready("b", program());
  EXPECT_NE(b["parent"], a["parent"]);
  const Fd process = pidfd_of(a["pid"]);
  node.remove("a");
  EXPECT_EQ(node.wait("a", "gone")["stopped"], true);
  EXPECT_TRUE(ends_within(process, Seconds(100)));
  EXPECT_EQ(ask(node.get("/v1/instances/b"))["pid"], b["pid"]);
}

TEST_F(NodePython, TheNinthTemplateEndsTheOneThatIsUnusedForLongest) {
  const json first = ready("i0", program(), "default/f0");
  const Fd its = pidfd_of(first["parent"]);
  const json second = ready("i1", program(), "default/f1");
  for (int i = 2; i <= 8; ++i)
    ready("i" + std::to_string(i), program(), "default/f" + std::to_string(i));
  EXPECT_TRUE(ends_within(its, Seconds(100)));
  EXPECT_EQ(ask(node.get("/v1/instances/i0"))["pid"], first["pid"]);
  EXPECT_EQ(ready("more", program(), "default/f1")["parent"], second["parent"]);
}

TEST_F(NodePython, SeveralPartsOnCpusAreRefused) {
  const json answer = node.call(verb::post, "/v1/instances",
                                {{"id", "a"},
                                 {"function", "default/f"},
                                 {"parts",
                                  {{{"device", "cpu0"}, {"slice", Node::slice(100)}},
                                   {{"device", "cpu1"}, {"slice", Node::slice(100)}}}},
                                 {"program", program()}});
  EXPECT_EQ(answer["status"], 400);
  EXPECT_TRUE(answer["error"].get<std::string>().starts_with("parts: a program with imports"))
      << answer;
}

// An interpreter that answers as a template does, but not with a fork of its own: the module's name
// says what with. The daemon would put that process into the slice, and kill it at its end.
constexpr char kLiar[] = R"(#!/usr/bin/python3
import os, socket, struct, sys
daemon = socket.socket(fileno=3)
def say(told, shown):
    socket.send_fds(daemon, [struct.pack("=IIiI", 1, 16, told, 0)], [os.pidfd_open(shown)])
daemon.send(struct.pack("=IIQ", 1, 17, 0))
socket.recv_fds(daemon, 64, 3)
lie, template, parent = sys.argv[-1], os.getpid(), os.getppid()
child = os.fork()
if child == 0:
    if lie == "grandchild" and os.fork() == 0: say(os.getpid(), os.getpid())
elif lie == "daemon": say(parent, parent)
elif lie == "pid": say(parent, child)
elif lie == "pidfd": say(child, parent)
elif lie == "itself": say(template, template)
daemon.recv(1)  # until the daemon's end closes
)";

TEST_F(NodePython, ATemplateThatAnswersWithAnotherProcessIsRefused) {
  const fs::path liar = folder / "python-liar";
  std::ofstream(liar) << kLiar;
  fs::permissions(liar, fs::perms(0755));
  for (const std::string lie : {"daemon", "pid", "pidfd", "itself", "grandchild"}) {
    json with = program();
    with["command"][0] = liar.string();
    with["imports"] = {lie};
    EXPECT_EQ(start(lie, with)["status"], 202);
    const json gone = node.wait(lie, "gone");
    const std::string error = gone["error"];
    EXPECT_NE(error.find("which is no fork of it"), error.npos) << lie << ": " << error;
    EXPECT_EQ(gone["pid"], 0);
  }
  ready("honest", program());
}

}  // namespace
}  // namespace sluice
