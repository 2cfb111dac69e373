// Functions that are programs of the user's own, on a whole platform: any path below
// /functions/NAME/; the Open Inference Protocol at /v2/models/NAME/; revisions that keep the files
// that they were applied with; and programs that do not do what they should.
#include <filesystem>
#include <fstream>

#include "tests/support/platform.h"

namespace sluice {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class PlatformProgram : public testing::Test {
 protected:
  PlatformProgram() {
    fs::create_directories(folder_);
    write("server.py", R"(
import http.server, os
class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.say(self.path.encode() + b" " + body)
    def do_GET(self):
        if self.path == "/said": return self.say(open("said.txt", "rb").read())
        if self.path == "/die": os._exit(3)
        self.say((self.path + " " + os.environ.get("GREETING", "") + " uid " + str(os.getuid())).encode())
    def say(self, text):
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Server).serve_forever()
)");
    write("said.txt", "first");
  }
  ~PlatformProgram() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  // `server`: lines of that section.
  std::string file_of(const std::string& server, const std::string& more = "") const {
    return "apiVersion: sluice.dev/v1alpha1\nkind: InferenceFunction\nmetadata: {name: f}\nspec:\n"
           "  policy: fixed\n  slice: {quota: {request: 20%}}\n  containerConcurrency: 4\n" +
           more + "  server:\n" + server;
  }
  std::string python(const std::string& more = "") const {
    return file_of("    command: [/usr/bin/python3, server.py]\n    files: [" + folder_.string() +
                   "/]\n    protocol: http\n    env: {GREETING: hello}\n" + more);
  }
  static void wait_until_ready(const Platform& p) {
    p.until("/v1/functions/default/f", [](const json& f) { return f.value("ready", false); });
  }
  std::string said_by(const Platform& p, const std::string& path) const {
    const Ended e = p.cli({"invoke", "f", "--path", path});
    EXPECT_EQ(e.code, 0) << e.err;
    return e.out;
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / ("program" + std::to_string(getpid()));
};

TEST_F(PlatformProgram, AnyPathReachesItUnderAUserOfItsOwn) {
  Platform p;
  const Ended applied = p.cli({"apply", "-f", "-"}, python());
  ASSERT_EQ(applied.code, 0) << applied.err;
  wait_until_ready(p);
  EXPECT_THAT(said_by(p, "/a/b?c=d"), HasSubstr("/a/b?c=d hello uid "));
  if (geteuid() == 0) {
    EXPECT_EQ(said_by(p, "/").find("uid 0"), std::string::npos);
  }
  const Ended posted = p.cli({"invoke", "f", "--path", "/echo", "--body", "-"}, "some text");
  EXPECT_EQ(posted.out, "/echo some text");
}

TEST_F(PlatformProgram, ARevisionKeepsTheFilesThatItWasAppliedWith) {
  Platform p;
  ASSERT_EQ(p.cli({"apply", "-f", "-"}, python()).code, 0);
  wait_until_ready(p);
  write("said.txt", "second");
  EXPECT_EQ(said_by(p, "/said"), "first");
  const Ended again = p.cli({"apply", "-f", "-"}, python());
  EXPECT_THAT(again.out, HasSubstr("content")) << again.err;
  EXPECT_TRUE(eventually("the new files", [&] {
    return p.cli({"invoke", "f", "--path", "/said"}).out == "second";
  }));
  ASSERT_EQ(p.cli({"rollback", "f"}).code, 0);
  EXPECT_TRUE(eventually("the old files", [&] {
    return p.cli({"invoke", "f", "--path", "/said"}).out == "first";
  }));
}

// It takes SIGTERM for nothing.
TEST_F(PlatformProgram, ItIsAskedToLeaveByTheSignalThatItsFileNames) {
  std::ifstream had(folder_ / "server.py");
  const std::string server{std::istreambuf_iterator<char>(had), {}};
  write("server.py",
        "import os, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "def leave(*_):\n    print('leaves', flush=True)\n    os._exit(0)\n"
        "signal.signal(signal.SIGUSR1, leave)\n" +
            server);
  Platform p;
  ASSERT_EQ(p.cli({"apply", "-f", "-"}, python("    drainSignal: SIGUSR1\n")).code, 0);
  wait_until_ready(p);
  const std::string id = p.instances().at(0)["id"];
  ASSERT_EQ(p.cli({"delete", "f"}).code, 0);
  EXPECT_TRUE(eventually("its last words", [&] {
    return p.cli({"logs", id}).out.find("leaves") != std::string::npos;
  }));
  const Ended refused = p.cli({"apply", "-f", "-"}, python("    drainSignal: SIGSTOP\n"));
  EXPECT_THAT(refused.err, HasSubstr("server.drainSignal: 'SIGSTOP' is none of"));
  EXPECT_THAT(refused.err, HasSubstr("SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1 or SIGUSR2"));
}

TEST_F(PlatformProgram, APrometheusFindsItsMetrics) {
  Platform p;
  ASSERT_EQ(p.cli({"apply", "-f", "-"}, python("    metrics: /own/metrics\n")).code, 0);
  const json targets =
      p.until("/v1/metrics/targets", [](const json& found) { return found.size() == 1; });
  const std::string at = targets[0]["targets"][0], path = targets[0]["labels"]["__metrics_path__"];
  EXPECT_EQ(targets[0]["labels"]["instance"], p.instances().at(0)["id"]);
  wire::HttpClient program(*wire::parse_endpoint(at), kPatience);
  EXPECT_THAT(program.call(verb::get, path)->body(), HasSubstr("/own/metrics hello uid "));

  std::ifstream address(p.data + "/run/api.address");
  std::string api;
  address >> api;
  write("prometheus.yaml",
        "scrape_configs:\n- job_name: programs\n  http_sd_configs:\n  - url: http://" + api +
            "/v1/metrics/targets\n    authorization: {type: Bearer, credentials_file: " + p.data +
            "/token}\n");
  const Ended discovered = run({"/usr/bin/promtool", "check", "service-discovery", "--timeout=5s",
                                (folder_ / "prometheus.yaml").string(), "programs"});
  EXPECT_EQ(discovered.code, 0) << discovered.err;
  EXPECT_THAT(discovered.out, HasSubstr("\"__address__\": \"" + at + "\"")) << discovered.err;
}

// Under Triton's names: 64 inferences an answer, which the gateway cannot know.
TEST_F(PlatformProgram, ItsOwnPageOfMetricsCountsItsInferences) {
  write("server.py", R"(
import http.server, os
inferences = 0
class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        global inferences
        inferences += 64
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.say(b"done")
    def do_GET(self):
        page = "nv_inference_count{model=\"m\"} %d\nnv_inference_compute_infer_duration_us %d\n"
        self.say((page % (inferences, 500 * inferences)).encode())
    def say(self, text):
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Server).serve_forever()
)");
  Platform p;
  ASSERT_EQ(p.cli({"apply", "-f", "-"}, python("    metrics: /metrics\n")).code, 0);
  wait_until_ready(p);
  const json f = p.until("/v1/functions/default/f", [&](const json& now) {
    p.cli({"invoke", "f", "--path", "/infer", "--body", (folder_ / "said.txt").string()});
    const json groups = now.value("groups", json::array());
    return groups.size() == 1 && groups[0]["compute_ms"] > 0;
  });
  const json& group = f["groups"][0];
  EXPECT_NEAR(group["compute_ms"], 0.5, 1e-6);
  EXPECT_EQ(group["instances"], 1);
  EXPECT_GT(group["inferences_per_second"], 32 * group["rps"].get<double>());
  EXPECT_EQ(group["body_bytes"], 5);
  EXPECT_THAT(p.cli({"describe", "f"}).out, HasSubstr("groups of alike instances"));
}

// python/sluice_serve.py, without a framework.
TEST_F(PlatformProgram, AFunctionOfPythonAnswersTheProtocol) {
  write("twice.py", R"(
from sluice_serve import serve
serve(lambda x: [[2 * v for v in x.tolist()]], inputs={"x": ("FP32", [-1, 2])}, outputs={"y": ("FP32", [-1, 2])})
)");
  write("f.yaml",
        file_of("    command: [/usr/bin/python3, twice.py]\n    files: [" + folder_.string() +
                "/twice.py, " SLUICE_SOURCE "/python/sluice_serve.py]\n"
                "    readiness: /v2/health/ready\n"));
  Platform p;
  const std::string file = folder_ / "f.yaml";
  // Its requests are made up from what it describes.
  const Ended profiled = p.cli({"profile", "-f", file, "--quotas", "50", "--seconds", "0.05"});
  EXPECT_EQ(profiled.code, 0) << profiled.err;
  const Ended applied = p.cli({"apply", "-f", file});
  ASSERT_EQ(applied.code, 0) << applied.err;
  wait_until_ready(p);
  const Ended answered = p.cli({"invoke", "f", "--print", "--body", "-"},
                               R"({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2],
                                   "data": [1.5, -3]}]})");
  EXPECT_EQ(answered.code, 0) << answered.err;
  EXPECT_THAT(answered.out, HasSubstr("y FP32 [1,2]\n    3.0 -6.0"));
}

TEST_F(PlatformProgram, OneThatDiesIsReplaced) {
  Platform p;
  ASSERT_EQ(p.cli({"apply", "-f", "-"}, python()).code, 0);
  wait_until_ready(p);
  const Ended died = p.cli({"invoke", "f", "--path", "/die"});
  EXPECT_NE(died.code, 0);
  EXPECT_TRUE(eventually("another", [&] {
    return p.cli({"invoke", "f", "--path", "/x"}).code == 0;
  }));
}

TEST_F(PlatformProgram, WhatCannotBeServedIsRefusedWithTheField) {
  Platform p;
  const std::pair<std::string, std::string> faults[] = {
      {"    command: [/no/such/program]\n", "spec.server.command: /no/such/program"},
      {"    command: [" + (folder_ / "said.txt").string() + "]\n", "cannot be run"},
      {"    command: [python3]\n", "'python3' is not an absolute path"},
      {"    command: [nothing]\n    files: [" + folder_.string() + "/]\n",
       "nothing: is none of server.files"},
      {"    command: [/bin/sh]\n    port: 80\n", "\"80\" is not a whole number from 1024 to 65535"},
      {"    command: [/bin/sh]\n    protocol: grpc\n", "'grpc' is neither oip nor http"},
      {"    command: [/bin/sh]\n    readiness: healthz\n", "'healthz' is not a path"},
      {"    command: [/bin/sh]\n    env: {SLUICE_X: 1}\n", "environment.SLUICE_X: is the node's"},
      {"    command: [/bin/sh]\n    env: {KEY: {file: /etc/shadow}}\n",
       "spec.server.env.KEY.file: \"/etc/shadow\" is no name of a file in DATA/secrets"},
      {"    command: [/bin/sh]\n    env: {KEY: {file: missing}}\n",
       "spec.server.env.KEY.file: " + p.data + "/secrets/missing: no such file"},
      {"    command: [/bin/sh]\n    files: [nothing.py]\n", "nothing.py"},
      {"    command: [/bin/sh]\n  device: cuda\n",
       "device: 'cuda': no node has such a device; there is cpu"},
      {"    command: [/bin/sh]\n  device: gpu\n", "spec.device: 'gpu' is none of cpu, cuda or any"},
      {"    args: [x]\n", "server.command: is missing"},
      {"    command: [/bin/sh]\n    comand: x\n", "unknown field, did you mean \"command\"?"}};
  for (const auto& [lines, said] : faults) {
    const Ended e = p.cli({"apply", "-f", "-"}, file_of(lines));
    EXPECT_EQ(e.code, 2) << lines;
    EXPECT_THAT(e.err, HasSubstr(said)) << lines;
  }
  EXPECT_EQ(p.get("/v1/functions"), json::array());
}

TEST_F(PlatformProgram, WithoutAModelServerProgramsServeAndDecisionsSayWhyModelsDoNot) {
  Platform p({"--runtime", "none"});
  ASSERT_EQ(p.cli({"apply", "-f", "-"}, python()).code, 0);
  wait_until_ready(p);
  EXPECT_EQ(said_by(p, "/said"), "first");
  ASSERT_EQ(p.apply({.name = "model"}).code, 0);
  p.until("/v1/decisions",
          [](const json& all) { return all.dump().find("no model server") != std::string::npos; });
}

TEST_F(PlatformProgram, OneThatEndsAtOnceIsShownWithTheReason) {
  Platform p;
  ASSERT_EQ(p.cli({"apply", "-f", "-"}, file_of("    command: [/bin/sh, -c, exit 3]\n")).code, 0);
  const json f = p.until("/v1/functions/default/f", [](const json& j) {
    return j.value("unavailable", "").find("exit code 3") != std::string::npos;
  });
  EXPECT_FALSE(f.value("ready", true));
  EXPECT_EQ(p.cli({"invoke", "f", "--path", "/"}).code, 3) << "it is the other protocol's";
}

// Returns how many processes have that word.
int processes_with(const std::string& word) {
  int count = 0;
  std::error_code fault;
  for (fs::directory_iterator at("/proc", fault), end; !fault && at != end; at.increment(fault)) {
    std::ifstream file(at->path() / "cmdline");
    const std::string words{std::istreambuf_iterator<char>(file), {}};
    count += words.find(word) != words.npos;
  }
  return count;
}

TEST_F(PlatformProgram, OneThatNeverListensHasSoLong) {
  Platform p;
  const std::string word = "36124." + std::to_string(getpid());
  ASSERT_EQ(p.cli({"apply", "-f", "-"},
                  file_of("    command: [/bin/sleep, \"" + word + "\"]\n    startTimeout: 1s\n"))
                .code,
            0);
  p.until("/v1/functions/default/f", [](const json& j) {
    return j.value("unavailable", "").find("was not ready within 1 s") != std::string::npos;
  });
  ASSERT_EQ(p.cli({"delete", "f"}).code, 0);
  EXPECT_TRUE(eventually("it to end", [&] { return processes_with(word) == 0; }));
}

TEST_F(PlatformProgram, OneThatNeverStartsIsGivenUpUntilItIsAppliedAgain) {
  const fs::path allowed = folder_ / "allowed";
  const std::string file =
      file_of("    command: [/bin/sh, -c, \"test -e " + allowed.string() +
              " || { echo no key; exit 3; }; exec /usr/bin/python3 server.py\"]\n    files: [" +
              folder_.string() + "/server.py]\n    protocol: http\n");
  fs::permissions(folder_, fs::perms(0755));
  Platform p;
  ASSERT_EQ(p.cli({"apply", "-f", "-"}, file).code, 0);
  const json f = p.until("/v1/functions/default/f", [](const json& j) {
    return j.value("unavailable", "").find("not started again") != std::string::npos;
  });
  EXPECT_EQ(f["start_failures"], 3);
  const Ended described = p.cli({"describe", "f"});
  EXPECT_THAT(described.out,
              HasSubstr("unavailable: Revision 1 could not start in 3 tries and is not started "
                        "again. Apply its file again for new tries. The last one: exit code 3; its "
                        "log ends: no key"));
  write("allowed", "");
  const Ended again = p.cli({"apply", "-f", "-", "--wait"}, file);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("revision 1 unchanged"));
  EXPECT_THAT(said_by(p, "/x"), HasSubstr("/x"));
}

// Returns the files below a folder that have the text.
std::vector<std::string> files_with(const std::string& text, const std::string& folder) {
  std::vector<std::string> found;
  std::error_code fault;
  for (fs::recursive_directory_iterator at(folder, fault), end; !fault && at != end;
       at.increment(fault)) {
    if (!at->is_regular_file()) continue;
    std::ifstream file(at->path());
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    if (bytes.find(text) != bytes.npos) found.push_back(at->path());
  }
  return found;
}

TEST_F(PlatformProgram, ASecretIsReadAtEachStartAndGoesNowhereElse) {
  Platform p;
  const fs::path secret = fs::path(p.data) / "secrets/greeting";
  EXPECT_EQ(fs::status(secret.parent_path()).permissions(), fs::perms(0700));
  std::ofstream(secret) << "hunter2 $(PORT)\n";
  fs::permissions(secret, fs::perms(0600));
  const std::string file =
      file_of("    command: [/usr/bin/python3, server.py]\n    files: [" + folder_.string() +
              "/]\n    protocol: http\n    env: {GREETING: {file: greeting}}\n");
  const Ended applied = p.cli({"apply", "-f", "-"}, file);
  ASSERT_EQ(applied.code, 0) << applied.err;
  wait_until_ready(p);
  EXPECT_THAT(said_by(p, "/x"), HasSubstr("/x hunter2 $(PORT) uid"));

  EXPECT_THAT(p.get("/v1/functions/default/f")["file"].get<std::string>(),
              HasSubstr("GREETING: {file: \"greeting\"}"));
  for (const auto& words :
       std::vector<std::vector<std::string>>{{"describe", "f"},
                                             {"get", "functions"},
                                             {"get", "decisions"},
                                             {"describe", p.instances()[0]["id"]}})
    for (const char* form : {"table", "json"}) {
      std::vector<std::string> all = words;
      all.insert(all.end(), {"-o", form});
      const Ended shown = p.cli(all);
      EXPECT_EQ(shown.code, 0) << shown.err;
      EXPECT_EQ(shown.out.find("hunter2"), std::string::npos) << shown.out;
    }
  EXPECT_THAT(files_with("hunter2", p.data), testing::ElementsAre(secret.string()));
  const fs::path run = fs::canonical(p.data + "/run");  // it may be a link
  EXPECT_THAT(files_with("hunter2", run), testing::IsEmpty());
  EXPECT_THAT(files_with("GREETING", run), testing::Not(testing::IsEmpty())) << "the node's record";

  fs::remove(secret);
  (void)p.cli({"invoke", "f", "--path", "/die"});
  const json f = p.until("/v1/functions/default/f", [](const json& j) {
    return j.value("unavailable", "").find("secrets") != std::string::npos;
  });
  EXPECT_THAT(f.value("unavailable", ""),
              HasSubstr("the variable GREETING: " + secret.string() + ": no such file"));
  std::ofstream(secret) << "another";
  fs::permissions(secret, fs::perms(0600));
  EXPECT_TRUE(eventually("the new value", [&] {
    return p.cli({"invoke", "f", "--path", "/x"}).out.find("/x another uid") != std::string::npos;
  }));
}

// What lies in the data directory for the platform's own programs is not in the way of functions'.
TEST_F(PlatformProgram, ItsFilesOutliveThePlatform) {
  Platform p;
  ASSERT_EQ(p.cli({"apply", "-f", "-"}, python()).code, 0);
  wait_until_ready(p);
  fs::remove(folder_ / "said.txt");
  p.stop();
  p.launch();
  p.wait_until_serves();
  wait_until_ready(p);
  EXPECT_EQ(said_by(p, "/said"), "first");
  (void)p.cli({"invoke", "f", "--path", "/die"});
  EXPECT_TRUE(eventually("another instance", [&] {
    return p.cli({"invoke", "f", "--path", "/said"}).out == "first";
  }));
}

TEST_F(PlatformProgram, TheProgramItselfMayBeOneOfItsFiles) {
  write("start", "#!/bin/sh\nexec /usr/bin/python3 server.py\n");
  fs::permissions(folder_ / "start", fs::perms(0744));
  Platform p;
  const std::string file =
      file_of("    command: [start]\n    files: [" + folder_.string() + "/]\n    protocol: http\n");
  const Ended applied = p.cli({"apply", "-f", "-"}, file);
  ASSERT_EQ(applied.code, 0) << applied.err;
  wait_until_ready(p);
  EXPECT_EQ(said_by(p, "/said"), "first");
  const Ended other = p.cli({"apply", "-f", "-"}, file_of("    command: [/bin/sh]\n"));
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err,
              HasSubstr("server.protocol: oip: default/f is asked by the other protocol"));
}

TEST_F(PlatformProgram, AContainerInKservesFormServes) {
  Platform p;
  const std::string file =
      "apiVersion: sluice.dev/v1alpha1\nkind: InferenceFunction\n"
      "metadata: {name: f}\nspec:\n  policy: fixed\n"
      "  slice: {quota: {request: 20%}}\n"
      "  predictor:\n    containers:\n"
      "    - command: [/usr/bin/python3, " +
      (folder_ / "server.py").string() +
      "]\n"
      "      env: [{name: GREETING, value: hello}]\n"
      "      readinessProbe: {httpGet: {path: /ready}}\n"
      "      resources: {limits: {memory: 256Mi}}\n";
  const Ended applied = p.cli({"apply", "-f", "-", "--wait"}, file);
  ASSERT_EQ(applied.code, 0) << applied.err;
  EXPECT_THAT(said_by(p, "/a"), HasSubstr("/a hello uid"));
  // What is shown of it can be applied, and is the same.
  const std::string shown = p.get("/v1/functions/default/f")["file"];
  EXPECT_THAT(shown, HasSubstr("server:"));
  EXPECT_THAT(p.cli({"apply", "-f", "-"}, shown).out, HasSubstr("revision 1 unchanged"));
  const Ended image = p.cli({"apply", "-f", "-"}, file + "      image: ada/server:1\n");
  EXPECT_EQ(image.code, 2);
  EXPECT_THAT(image.err, HasSubstr("images run on Kubernetes alone"));
}

TEST_F(PlatformProgram, WhatForksAwayEndsWithIt) {
  if (geteuid() != 0) GTEST_SKIP() << "without a cgroup nothing holds it";
  const std::string word = "36123." + std::to_string(getpid());
  write("start", "#!/bin/sh\nsetsid /bin/sleep " + word +
                     " >/dev/null 2>&1 &\nexec /usr/bin/python3 server.py\n");
  fs::permissions(folder_ / "start", fs::perms(0744));
  Platform p;
  ASSERT_EQ(p.cli({"apply", "-f", "-"}, file_of("    command: [start]\n    files: [" +
                                                folder_.string() + "/]\n    protocol: http\n"))
                .code,
            0);
  wait_until_ready(p);
  EXPECT_TRUE(eventually("its child to begin", [&] { return processes_with(word) == 1; }));
  ASSERT_EQ(p.cli({"delete", "f"}).code, 0);
  EXPECT_TRUE(eventually("its child to end", [&] { return processes_with(word) == 0; }));
}

// Root would read them for users without the right to.
TEST_F(PlatformProgram, LinksAreNotCopied) {
  Platform p;
  for (const char* at : {"/link", "/"}) {
    fs::remove(folder_ / "link");
    fs::create_symlink("/etc/shadow", folder_ / "link");
    const Ended e = p.cli({"apply", "-f", "-"}, file_of("    command: [/bin/sh]\n    files: [" +
                                                        folder_.string() + at + "]\n"));
    EXPECT_EQ(e.code, 2) << at;
    EXPECT_THAT(e.err, HasSubstr("link")) << at;
  }
}

}  // namespace
}  // namespace sluice
