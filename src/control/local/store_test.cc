#include "control/local/store.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "control/spec/function_file.h"
#include "control/spec/function_text.h"
#include "tests/support/folder.h"

namespace sluice::control {
namespace {

class StoreTest : public testing::Test {
 protected:
  std::string path() const { return folder.path + "/control.db"; }
  static Revision revision(int n) {
    FunctionSpec s;
    s.name.name = "f";
    s.inference().model.path = "/m.pt";
    return {s.name, n, s, n * 10};
  }
  const TemporaryFolder folder;
};

// As a file's name may have them. Else the transaction would stay open, and nothing be kept again.
TEST_F(StoreTest, BytesThatAreNoUtf8AreReplacedAndWhatFollowsIsKept) {
  {
    Store store = std::move(*Store::open(path()));
    Revision odd = revision(1);
    odd.spec.inference().model.path = "/caf\xe9.pt";
    EXPECT_TRUE(store.add_revision(odd, 1).ok());
    EXPECT_TRUE(store.add_revision(revision(2), 1).ok());
  }
  Store store = std::move(*Store::open(path()));
  const auto functions = *store.functions();
  ASSERT_EQ(functions.size(), 1u);
  EXPECT_EQ(functions[0].revisions[0].spec.inference().model.path, "/caf\uFFFD.pt");
  EXPECT_EQ(functions[0].revisions[1], revision(2));
}

TEST_F(StoreTest, KeepsWhatItWasGiven) {
  {
    Store store = std::move(*Store::open(path()));
    ASSERT_TRUE(store.add_revision(revision(1), 1).ok());
    ASSERT_TRUE(store.add_revision(revision(2), 1).ok());
    JournalEntry entry;
    entry.decisions.push_back({.at = 5,
                               .function = {.name = "f"},
                               .action = "start",
                               .subject = "i",
                               .reason = {"r", "because", {{"x", 1}}}});
    entry.rates.push_back({{.name = "f"}, 100, 2.5, 1, 2, 3});
    ASSERT_TRUE(store.write(entry).ok());
    ASSERT_TRUE(store
                    .save_profile({.model = "/m.pt",
                                   .content = "aa",
                                   .device = {"cpu/500m"},
                                   .points = {{{1, {1000}, {500}}, Millis(2), Millis(3), 10}}})
                    .ok());
  }
  Store store = std::move(*Store::open(path()));
  const auto functions = *store.functions();
  ASSERT_EQ(functions.size(), 1u);
  EXPECT_EQ(functions[0].newest, 2);
  EXPECT_EQ(functions[0].serving, 1);
  EXPECT_EQ(functions[0].revisions[1], revision(2));
  EXPECT_EQ(store.decisions(FunctionName{.name = "f"}, 5)->at(0).reason.numbers[0].second, 1);
  const Profiles profiles = *store.profiles();
  const Profile* profile = profiles.find({.path = "/moved.pt", .content = "aa"}, {"cpu/500m"});
  ASSERT_NE(profile, nullptr);
  EXPECT_EQ(profile->points[0].at.quota.permille, 500);
  EXPECT_EQ(store.rates({.name = "f"}, 0)->at(0).rate, 2.5);
}

// Schema 2 had no arrivals.
TEST_F(StoreTest, AFileOfSchema2KeepsWhatItHasAndTakesArrivals) {
  {
    Store store = std::move(*Store::open(path()));
    ASSERT_TRUE(store.add_revision(revision(1), 1).ok());
    Database db = std::move(*Database::open(path()));
    ASSERT_TRUE(db.run("DROP TABLE arrivals").ok());
    ASSERT_TRUE(db.run("PRAGMA user_version = 2").ok());
  }
  Store store = std::move(*Store::open(path()));
  EXPECT_EQ(store.functions()->size(), 1u);
  EXPECT_TRUE(store.arrivals({.name = "f"})->empty());
  JournalEntry entry{.arrivals = {{{.name = "f"}, 7, {1, 2, 3}}}};
  ASSERT_TRUE(store.write(entry).ok());
  EXPECT_EQ(*store.arrivals({.name = "f"}), entry.arrivals);
}

TEST_F(StoreTest, ArrivalsThatCannotBeReadAreNone) {
  Store store = std::move(*Store::open(path()));
  Database db = std::move(*Database::open(path()));
  ASSERT_TRUE(db.run("INSERT INTO arrivals VALUES ('default/f', 1, '[1,-2,\"x\",null,5]')").ok());
  ASSERT_TRUE(db.run("INSERT INTO arrivals VALUES ('default/f', 2, 'no list')").ok());
  ASSERT_TRUE(db.run("INSERT INTO arrivals VALUES ('default/f', 3, '[]')").ok());
  const auto hours = *store.arrivals({.name = "f"});
  ASSERT_EQ(hours.size(), 3u);
  EXPECT_EQ(hours[0].arrivals, (ArrivalHistory::Hour{1, 0, 0, 0, 5}));
  EXPECT_EQ(hours[1].arrivals, ArrivalHistory::Hour{});
  EXPECT_EQ(hours[2].arrivals, ArrivalHistory::Hour{});
}

// In the form of the version before: one profile per path, without a type of device.
TEST_F(StoreTest, ProfilesOfSchema1AreKeptUntilTheModelIsMeasuredAgain) {
  {
    Database db = std::move(*Database::open(path()));
    ASSERT_TRUE(
        db.run("CREATE TABLE profiles (model TEXT PRIMARY KEY, profile TEXT NOT NULL)").ok());
    ASSERT_TRUE(db.run("INSERT INTO profiles VALUES ('/m.pt', ?)",
                       {R"({"function": "default/f", "revision": 1, "memory": 7, "points": [{
                             "batch": 1, "sm": 1000, "quota": 500, "latency_p50_us": 2000,
                             "latency_p95_us": 3000, "throughput": 10}]})"})
                    .ok());
    ASSERT_TRUE(db.run("PRAGMA user_version = 1").ok());
  }
  const ModelSpec model{.path = "/m.pt", .content = "aa"};
  Store store = std::move(*Store::open(path()));
  const Profiles before = *store.profiles();
  const Profile* old = before.find(model, {"cpu/500m"});
  ASSERT_NE(old, nullptr);
  EXPECT_EQ(old->points[0].median, Millis(2));
  EXPECT_EQ(old->memory, 7);
  ASSERT_TRUE(store.save_profile({.model = "/m.pt", .content = "aa", .device = {"cpu/500m"}}).ok());
  const Profiles after = *store.profiles();
  EXPECT_EQ(after.all().size(), 1u);
  EXPECT_EQ(after.find({.path = "/m.pt", .content = "bb"}, {"cpu/500m"}), nullptr);
}

TEST_F(StoreTest, RefusesANewerSchemaAndWhatIsNoStore) {
  {
    Database db = std::move(*Database::open(path()));
    ASSERT_TRUE(db.run("PRAGMA user_version = 99").ok());
  }
  EXPECT_NE(Store::open(path()).error().message.find("version 99"), std::string::npos);
  std::ofstream(folder.path + "/text.db") << std::string(5000, 'x');
  EXPECT_FALSE(Store::open(folder.path + "/text.db").ok());
  EXPECT_FALSE(Store::open(folder.path + "/no/such/folder/x.db").ok());
}

TEST_F(StoreTest, RefusesAFileThatWasEmptied) {
  ASSERT_TRUE(Store::open(path()).ok());
  std::ofstream(path(), std::ios::trunc).close();
  const auto refused = Store::open(path());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("all that the control loop had stored is lost"),
            std::string::npos);
  EXPECT_NE(refused.error().message.find("put a copy of the file back"), std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(path()), 0u) << "it is left as it is";
}

TEST_F(StoreTest, ATrainingFunctionIsKept) {
  Revision training = revision(1);
  training.spec.kind = TrainingSpec{.command = {"/bin/train"}, .epochs = 3};
  Store store = std::move(*Store::open(path()));
  ASSERT_TRUE(store.add_revision(training, 1).ok());
  const auto functions = *store.functions();
  ASSERT_EQ(functions.size(), 1u);
  EXPECT_TRUE(functions[0].complete);
  EXPECT_EQ(functions[0].revisions.front().spec, training.spec);
}

TEST_F(StoreTest, ARowThatCannotBeReadStopsNoOther) {
  const auto of = [](const std::string& name, int number) {
    Revision r = revision(number);
    r.function.name = r.spec.name.name = name;
    return r;
  };
  {
    Store store = std::move(*Store::open(path()));
    for (const char* name : {"good", "bare", "half"})
      ASSERT_TRUE(store.add_revision(of(name, 1), 1).ok());
    ASSERT_TRUE(store.add_revision(of("half", 2), 1).ok());
    JournalEntry entry;
    entry.accounts = {{"default/good", {{"starts", 1}}}, {"default/half", {{"starts", 2}}}};
    ASSERT_TRUE(store.write(entry).ok());
  }
  {
    Database db = std::move(*Database::open(path()));
    ASSERT_TRUE(db.run("DELETE FROM revisions WHERE function='default/bare'").ok());
    ASSERT_TRUE(
        db.run("UPDATE revisions SET spec='{' WHERE function='default/half' AND number=2").ok());
    ASSERT_TRUE(db.run("UPDATE accounts SET account='{' WHERE key='default/half'").ok());
  }
  Store store = std::move(*Store::open(path()));
  const auto functions = *store.functions();
  ASSERT_EQ(functions.size(), 3u);  // by name: bare, good, half
  EXPECT_TRUE(functions[0].revisions.empty());
  EXPECT_EQ(functions[1].revisions.size(), 1u);
  EXPECT_EQ(functions[2].newest, 1) << "the newest cannot be read";
  EXPECT_EQ(store.accounts()->size(), 1u);
  ASSERT_TRUE(store.add_revision(of("half", 2), 1).ok()) << "its file may be applied again";
  EXPECT_EQ(store.functions()->at(2).newest, 2);
}

// kill -9 at any moment: acknowledged changes are there.
TEST_F(StoreTest, AcknowledgedRevisionsSurviveAKill) {
  for (int round = 0; round < 5; ++round) {
    int pipe_fds[2];
    ASSERT_EQ(pipe(pipe_fds), 0);
    const pid_t child = fork();
    if (child == 0) {
      Store store = std::move(*Store::open(path()));
      int n = static_cast<int>(store.functions()->empty() ? 0 : store.functions()->at(0).newest);
      for (;;) {
        if (!store.add_revision(revision(++n), 1).ok()) _exit(1);
        if (write(pipe_fds[1], &n, sizeof(n)) != sizeof(n)) _exit(1);
      }
    }
    int acknowledged = 0;
    for (int i = 0; i < 10 + round; ++i)
      ASSERT_EQ(read(pipe_fds[0], &acknowledged, sizeof(acknowledged)),
                static_cast<ssize_t>(sizeof(acknowledged)));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    close(pipe_fds[1]);
    while (read(pipe_fds[0], &acknowledged, sizeof(acknowledged)) ==
           static_cast<ssize_t>(sizeof(acknowledged))) {
    }
    close(pipe_fds[0]);
    Store store = std::move(*Store::open(path()));
    EXPECT_GE(store.functions()->at(0).newest, acknowledged);
    EXPECT_EQ(store.functions()->at(0).revisions.size(),
              static_cast<size_t>(store.functions()->at(0).newest));
  }
}

// ---- function files --------------------------------------------------------------------------

constexpr const char* kFile = R"(apiVersion: sluice.dev/v1alpha1
kind: InferenceFunction
metadata: {name: resnet, namespace: vision}
spec:
  model: {path: m.pt}
  slo: {latency: 80ms, percentile: 99}
  batcher: {maxBatchSize: 8, maxLatency: 2ms}
  slice: {sm: 50%, quota: {request: 20%, limit: 0.4}, memory: 512Mi}
  token: "secret"
)";

TEST(FunctionFile, IsReadAndWrittenBack) {
  const std::string text = kFile + std::string("  scaleTarget: 3\n  scaleToZeroAfter: 5m\n");
  const auto specs = parse_functions(text, {.file = "f.yaml", .folder = "/models"});
  ASSERT_TRUE(specs.ok()) << specs.error().message;
  const FunctionSpec& s = specs->at(0);
  EXPECT_EQ(to_string(s.name), "vision/resnet");
  EXPECT_EQ(s.inference().model.path, "/models/m.pt");
  EXPECT_EQ(s.inference().slo.latency, Millis(80));
  EXPECT_EQ(s.inference().scale_target, 3);
  EXPECT_EQ(s.inference().scale_to_zero_after, Seconds(300));
  EXPECT_EQ(s.slice->quota.limit.permille, 400);
  EXPECT_EQ(s.slice->memory, 512 << 20);
  EXPECT_EQ(parse_functions(to_yaml(s), {})->at(0), s);
}

TEST(FunctionFile, APolicyMayHaveSettingsOfItsOwn) {
  const auto with = [](const std::string& policy) {
    return parse_functions(kFile + policy, {.file = "f.yaml", .folder = "/models"});
  };
  const auto specs = with("  policy: {name: has-gpu, settings: {alpha: 0.8, cooldown: 2m}}\n");
  ASSERT_TRUE(specs.ok()) << specs.error().message;
  EXPECT_EQ(specs->at(0).policy, "has-gpu");
  EXPECT_EQ(specs->at(0).policy_settings,
            (std::map<std::string, std::string>{{"alpha", "0.8"}, {"cooldown", "2m"}}));
  EXPECT_EQ(parse_functions(to_yaml(specs->at(0)), {})->at(0), specs->at(0));
  FunctionSpec plain = specs->at(0);
  plain.policy_settings.clear();
  EXPECT_EQ(difference(plain, specs->at(0)),
            std::vector<std::string>{"policy.settings: the policy's -> alpha: 0.8, cooldown: 2m"});
  EXPECT_EQ(with("  policy: {name: has-gpu, settings: {alpha: 3, betta: 1}}\n").error().message,
            "f.yaml:10 spec.policy.settings.alpha: under has-gpu, alpha: 3 is not allowed; 0.05 to "
            "1 are\n"
            "f.yaml:10 spec.policy.settings.betta: under has-gpu, betta is no setting of this "
            "policy; did you mean 'beta'?; there are alpha, beta, quota_step, min_quota, cooldown, "
            "min_rate, slo_fraction, idle_meets_slo, borrow, work_off, slack, keep_peak, "
            "load_first, lone_in_time, outlast_starts and unmeasured");
  EXPECT_TRUE(with("  policy: {name: has-gpu, settings: {alpha: 0.2, beta: 0.1}}\n").ok());
  EXPECT_EQ(with("  policy: {name: has-gpu, settings: {beta: 0.8}}\n").error().message,
            "f.yaml:10 spec.policy.settings: under has-gpu, beta: 0.8 is above alpha, which is "
            "0.7; at most alpha is allowed");
  EXPECT_EQ(with("  policy: {settings: {alpha: 0.5}}\n").error().message,
            "f.yaml:10 spec.policy.name: is missing; it must be a policy's name");
}

TEST(FunctionFile, SettingsOfAPlatformsPolicyAreAFileOfTheirOwn) {
  const policy::Bundle& bundle = *policy::find_bundle("exclusive");
  const auto settings = parse_settings("target_utilisation: 0.5\n", "s.yaml", bundle);
  ASSERT_TRUE(settings.ok()) << settings.error().message;
  EXPECT_EQ(settings->at("target_utilisation"), "0.5");
  EXPECT_EQ(parse_settings("target_utilisation: 7\ncooldown: soon\n", "s.yaml", bundle)
                .error()
                .message.substr(0, 77),
            "s.yaml:1 target_utilisation: 7 is not allowed; 0.01 to 1 are\ns.yaml:2 cooldow");
  EXPECT_FALSE(parse_settings("- a\n", "s.yaml", bundle).ok());
  EXPECT_EQ(
      parse_settings("alpha: 0.2\n", "s.yaml", *policy::find_bundle("has-gpu")).error().message,
      "s.yaml:1 beta: 0.3 is above alpha, which is 0.2; at most alpha is allowed");
}

// One change to the good file, and the expected message.
TEST(FunctionFile, AFunctionMayHaveTheNameThatItHasOnAnotherServer) {
  const auto parses = [](const std::string& name) {
    std::string text = kFile;
    text.replace(text.find("name: resnet,"), 13, "name: \"" + name + "\",");
    return parse_functions(text, {.file = "f.yaml"}).ok();
  };
  for (const std::string& name : {std::string("resnet"), std::string("ResNet_50.v1-5"),
                                  std::string("7"), std::string("a..b"), std::string(63, 'A')})
    EXPECT_TRUE(parses(name)) << name;
  for (const std::string& name :
       {std::string(64, 'a'), std::string("_a"), std::string("a_"), std::string(".a"),
        std::string("a."), std::string("-a"), std::string("a b"), std::string("a/b"),
        std::string("a%20b"), std::string("\xc3\xa4")})
    EXPECT_FALSE(parses(name)) << name;
}

TEST(FunctionFile, FaultsNameLineFieldValueAndWhatIsAllowed) {
  struct Case {
    const char* from;
    const char* to;
    const char* said;
  };
  for (const Case& c : std::vector<Case>{
           {"latency: 80ms, p", "latency: fast, p", "f.yaml:6 spec.slo.latency"},
           {"maxBatchSize: 8", "maxBatchSise: 8", "did you mean \"maxBatchSize\"?"},
           {"maxBatchSize: 8", "maxBatchSize: 0", "\"0\" is not a whole number from 1 to 256"},
           {"kind: InferenceFunction", "kind: Training",
            "InferenceFunction and TrainingFunction are"},
           {"name: resnet,", "name: Res/net,", "is no name"},
           {"v1alpha1", "v2", "sluice.dev/v1alpha1 is"},
           {"request: 20%", "request: 120%", "spec.slice.quota.request"},
           {"limit: 0.4", "limit: 0.1", "is below the request"},
           {"model: {path: m.pt}", "modle: {path: m.pt}", "did you mean \"model\"?"},
           {"slo: {latency: 80ms, percentile: 99}", "slo: 80ms", "spec.slo"},
           {"token: \"secret\"", "token: [1]", "spec.token"},
           {"spec:", "spec", "f.yaml:"},
           {"path: m.pt", "path: m\x07.pt", "f.yaml:5 text must be UTF-8"},
           {"path: m.pt", "path: \"m\\x07.pt\"", "without control characters"},
           {"path: m.pt", "path: m\x85.pt", "text must be UTF-8"},
           {"maxLatency: 2ms", "maxLatency: 2", "\"2\" is not a duration with a unit"},
           {"memory: 512Mi", "memory: 12", "\"12\" is not an amount of memory with a unit"},
           {"  token:", "  timeout: 5\n  token:", "f.yaml:9 spec.timeout: \"5\" is not a duration"},
           {"  token:", "  timeout: 50ms\n  token:",
            "f.yaml:9 spec.timeout: 50ms is below slo.latency, 80ms"},
           {"latency: 80ms, p", "latency: 2m, p", "spec.timeout: 1m is below slo.latency, 2m"},
           {"  token:", "  policy: has-gpus\n  token:",
            "f.yaml:9 spec.policy: \"has-gpus\" is not known, did you mean \"has-gpu\"?"},
           {"path: m.pt", "path: \"\"", "f.yaml:5 spec.model.path: \"\" is no file"},
           {"path: m.pt", "storageUri: s3://b/m.pt",
            "f.yaml:5 spec.model.storageUri: \"s3://b/m.pt\": file://, https:// and "
            "http:// are served"},
           {"path: m.pt", "path: m.pt, inputs: []", "spec.model.inputs: must be a list"},
           {"path: m.pt", "path: m.pt, inputs: [{name: x, datatype: FP32, shape: [-1]}]",
            "f.yaml:5 spec.model.outputs: is missing"},
           {"path: m.pt", "path: m.pt, inputs: [{name: x, datatype: FLOAT, shape: [-1]}]",
            "f.yaml:5 spec.model.inputs[0].datatype: \"FLOAT\" is not known; allowed are BOOL, "
            "UINT8"},
           {"path: m.pt", "path: m.pt, inputs: [{name: x, datatype: FP32, shape: [-1, a]}]",
            "spec.model.inputs[0].shape: must be a list of whole numbers"},
           {"path: m.pt",
            "path: m.pt, inputs: [{name: x, datatype: FP32, shape: [-1, 3], sizes: [1, 4]}]",
            "spec.model.inputs[0].sizes: the dimension 4 is no size of 3"},
           {"path: m.pt",
            "path: m.pt, inputs: [{name: x, datatype: INT64, shape: [-1], sample: 0.5}]",
            "spec.model.inputs[0].sample: 0.5 is no INT64"},
           {"path: m.pt",
            "path: m.pt, outputs: [{name: y, datatype: FP32, shape: [-1], sizes: [1]}]",
            "spec.model.outputs[0].sizes: unknown field"},
       }) {
    std::string text = kFile;
    text.replace(text.find(c.from), std::string(c.from).size(), c.to);
    const auto specs = parse_functions(text, {.file = "f.yaml"});
    ASSERT_FALSE(specs.ok()) << c.to;
    EXPECT_NE(specs.error().message.find(c.said), std::string::npos) << c.to << ":\n"
                                                                     << specs.error().message;
  }
}

constexpr char kJob[] =
    "apiVersion: sluice.dev/v1alpha1\n"
    "kind: TrainingFunction\n"
    "metadata: {name: vgg}\n"
    "spec:\n"
    "  model: {path: /m.pt}\n"
    "  dataset: /data/flowers\n"
    "  length: 90\n"
    "  leastDevices: 2\n"
    "  mostDevices: 8\n"
    "  batchSize: {least: 64, most: 4096, mostPerWorker: 256}\n"
    "  learningRate: 0.1\n"
    "  policy: {name: has-gpu, settings: {floor: 10%}}\n"
    "  priority: 3\n";

TEST(FunctionFile, ATrainingFunctionIsReadAndWrittenBack) {
  const auto specs = parse_functions(kJob, {.file = "f.yaml"});
  ASSERT_TRUE(specs.ok()) << specs.error().message;
  const FunctionSpec& spec = specs->front();
  const TrainingSpec wanted{.model = {.path = "/m.pt"},
                            .dataset = "/data/flowers",
                            .epochs = 90,
                            .min_workers = 2,
                            .max_workers = 8,
                            .batch = {64, 4096, 256},
                            .learning_rate = 0.1};
  EXPECT_EQ(spec.training(), wanted);
  EXPECT_EQ(spec.priority, 3);
  EXPECT_EQ(parse_functions(to_yaml(spec), {})->front(), spec);
  FunctionSpec paused = spec;
  paused.training().paused = true;
  EXPECT_EQ(parse_functions(to_yaml(paused), {})->front(), paused);
  EXPECT_EQ(difference(spec, paused), (std::vector<std::string>{"paused: false -> true"}));
  FunctionSpec planned = spec;
  planned.training().plan = "sluice";
  EXPECT_EQ(parse_functions(to_yaml(planned), {})->front(), planned);
  EXPECT_EQ(difference(spec, planned),
            (std::vector<std::string>{"plan: the platform's, else the policy's -> sluice"}));
}

TEST(FunctionFile, ATrainingFunctionsFaultsNameLineFieldAndValue) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"  length: 90\n", "", "spec.length: is missing; it must be the number of epochs"},
      {"length: 90", "length: 0", "f.yaml:7 spec.length: \"0\""},
      {"  dataset: /data/flowers\n", "", "spec.dataset: is missing"},
      {"  model: {path: /m.pt}\n", "", "spec.model: is missing"},
      {"model: {path: /m.pt}", "command: [train.py]", "'train.py' is not an absolute path"},
      {"mostDevices: 8", "mostDevices: 1", "spec.mostDevices: 1 is below leastDevices 2"},
      {"most: 4096", "most: 32", "spec.batchSize.most: 32 is below least 64"},
      {"learningRate", "learnigRate", "did you mean \"learningRate\"?"},
      {"floor: 10%", "floor: 200%", "floor"},
      {"floor: 10%", "alpha: 1", "alpha"},
      {"priority: 3", "plan: fofi",
       "f.yaml:13 spec.plan: \"fofi\" is not known, did you mean \"fifo\"? Allowed are sluice"},
      {"priority: 3", "plan: fifo",
       "spec.policy.settings.floor: under plan fifo, floor: this policy has no settings"},
      {"priority: 3", "elastic: true", "spec.elastic: is for a command: there is none"},
      {"priority: 3", "paused: perhaps", "spec.paused: must be true or false"}};
  for (const auto& [from, to, said] : cases) {
    std::string text = kJob;
    text.replace(text.find(from), std::string(from).size(), to);
    const auto specs = parse_functions(text, {.file = "f.yaml"});
    ASSERT_FALSE(specs.ok()) << to;
    EXPECT_NE(specs.error().message.find(said), std::string::npos) << specs.error().message;
  }
}

// A misspelt field is one problem; the missing field that it stands for is not another.
TEST(FunctionFile, EachFaultIsSaidOnce) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"model: {path: m.pt}", "modle: {path: m.pt}"},
      {"path: m.pt", "pth: m.pt"},
      {"latency: 80ms", "latncy: 80ms"},
      {"kind:", "knid:"},
      {"apiVersion:", "apiversion:"},
      {"name: resnet", "nam: resnet"},
      {"slo: {latency: 80ms, percentile: 99}", "slo: 80ms"}};
  for (const auto& [from, to] : cases) {
    std::string text = kFile;
    text.replace(text.find(from), from.size(), to);
    const auto specs = parse_functions(text, {.file = "f.yaml"});
    ASSERT_FALSE(specs.ok()) << to;
    EXPECT_EQ(std::ranges::count(specs.error().message, '\n'), 0) << specs.error().message;
  }
}

TEST(FunctionFile, ZeroNeedsNoUnit) {
  std::string text = kFile;
  text.replace(text.find("2ms"), 3, "0");
  text.replace(text.find("512Mi"), 5, "0");
  const auto specs = parse_functions(text, {});
  ASSERT_TRUE(specs.ok()) << specs.error().message;
  EXPECT_EQ(specs->at(0).inference().batching.max_delay, Nanos(0));
  EXPECT_EQ(specs->at(0).slice->memory, 0);
}

TEST(FunctionFile, TellsTheModelsInputsAndOutputs) {
  std::string text = kFile;
  const std::string tensors =
      "path: m.pt, inputs: [{name: \"1\", datatype: FP32, shape: [-1, -1], sizes: [-1, 3], "
      "sample: 0.5}], "
      "outputs: [{name: y, datatype: INT64, shape: []}]";
  text.replace(text.find("path: m.pt"), 10, tensors);
  const auto specs = parse_functions(text, {.folder = "/models"});
  ASSERT_TRUE(specs.ok()) << specs.error().message;
  EXPECT_EQ(specs->at(0).inference().model.inputs,
            (std::vector<TensorSpec>{{"1", "FP32", {-1, -1}, {-1, 3}, {0.5}}}));
  EXPECT_EQ(specs->at(0).inference().model.outputs, (std::vector<TensorSpec>{{"y", "INT64", {}}}));
  EXPECT_EQ(parse_functions(to_yaml(specs->at(0)), {})->at(0), specs->at(0));
}

TEST(FunctionFile, AModelsFaultHasItsLineAndStandsBesideTheOthers) {
  std::string text = kFile;
  text.replace(text.find("80ms"), 4, "fast");
  const auto specs = parse_functions(text, {.file = "f.yaml", .folder = "/models"},
                                     [](ModelSpec& m) -> Result<void> {
                                       return Error{ErrorKind::kInvalid, m.path + ": is none"};
                                     });
  EXPECT_NE(specs.error().message.find("f.yaml:6 spec.slo.latency: "), std::string::npos);
  EXPECT_NE(specs.error().message.find("f.yaml:5 spec.model.path: /models/m.pt: is none"),
            std::string::npos);
}

TEST(FunctionFile, AFileIsTakenWholeOrNotAtAll) {
  const std::string two = std::string(kFile) + "---\n" + kFile;
  EXPECT_NE(parse_functions(two, {.file = "f.yaml"}).error().message.find("stands there twice"),
            std::string::npos);
  EXPECT_FALSE(parse_functions("", {}).ok());
  EXPECT_FALSE(parse_functions("- 1\n- 2", {}).ok());
}

TEST(FunctionFile, RefusesWhatYamlAllowsAndNoFunctionNeeds) {
  const std::string good = kFile;
  const std::vector<std::pair<std::string, std::string>> cases{
      {good + "---\n&a {b: c}", "f.yaml:11 anchors (&) and aliases (*) are not allowed"},
      {"a: 1\nb: &a [*a]", "f.yaml:2 anchors"},
      {"{" + std::string(100'000, '['), "f.yaml:1 nested deeper than 32"},
      {good + std::string(2 << 20, '#'), "at most 1048576 are read"},
      {"\n,.", "f.yaml:2 nothing can start with this character"},
      {good + "...\n]", "f.yaml:11 illegal flow end"},
  };
  for (const auto& [text, said] : cases) {
    const auto specs = parse_functions(text, {.file = "f.yaml"});
    ASSERT_FALSE(specs.ok()) << said;
    EXPECT_NE(specs.error().message.find(said), std::string::npos) << specs.error().message;
  }
}

}  // namespace
}  // namespace sluice::control
