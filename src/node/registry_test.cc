#include "node/registry.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace sluice::node {
namespace {

using nlohmann::json;

NodeState example() {
  NodeState s{.boot_id = "b00", .generation = 7};
  s.devices.push_back({{.id = "cpu0",
                        .node = "here",
                        .millicores = 2000,
                        .memory = 1 << 30,
                        .sm_quantum = {500},
                        .can_resize_sm = true,
                        .drained = true,
                        .price_per_hour = 0.08},
                       {4, 5}});
  InstanceRecord r;
  r.instance = {.id = "resnet-1-k7f2",
                .function = {"default", "resnet"},
                .revision = 1,
                .state = InstanceState::kReady,
                .parts = {{"cpu0", {{500}, {{200}, {400}}, 1000}, {{500}, {100}}}},
                .batch = 4,
                .started = Time(Seconds(12))};
  r.birth = ForkOfTemplate{
      .model = {.path = "/models/resnet.pt", .inputs = {{"x", "FP32", {-1, 3, 224, 224}}}},
      .batching = {.max_size = 4, .max_delay = Micros(500)}};
  r.socket = "/data/run/i/resnet-1-k7f2.sock";
  r.log = "/data/logs/resnet-1-k7f2.log";
  r.uid = 61003;
  r.process = {.pid = 99, .start_time = 123456789};
  r.program = "/usr/bin/sluice-runtime";
  r.owner = {.pid = 77, .start_time = 123456};
  r.ready_after_ms = 140;
  s.instances.push_back(r);
  r.birth = ExecOfProgram{.command = {"/bin/server"}, .port = 0, .ready_path = "/"};
  r.socket = "127.0.0.1:40123";
  s.instances.push_back(r);
  r.instance.parts.push_back({"cpu1", {{500}, {{200}, {400}}, 0}, {}});
  r.siblings = {{.pid = 98, .start_time = 123456790}};
  s.instances.push_back(r);
  r.siblings.clear();
  r.birth = ForkOfTemplate{};
  r.foreign = true;
  r.instance.state = InstanceState::kGone;
  r.ended = 1'700'000'000'000;
  r.device_fault = "Xid 79";
  r.stopped = true;
  r.node_fault = true;
  r.error = "signal 9 (Killed)";
  s.instances.push_back(r);
  return s;
}

struct RegistryTest : testing::Test {
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("registry-" + std::to_string(getpid()));
  std::filesystem::path file = folder / "node.json";
  Registry registry{file, "b00"};

  RegistryTest() { std::filesystem::create_directories(folder); }
  ~RegistryTest() override { std::filesystem::remove_all(folder); }
  std::string load_error() const {
    const auto r = registry.load();
    return r.ok() ? "" : r.error().message;
  }
};

TEST_F(RegistryTest, WhatIsSavedIsLoaded) {
  ASSERT_TRUE(registry.save(example()).ok());
  ASSERT_TRUE(registry.save(example()).ok());
  EXPECT_EQ(**registry.load(), example());
  EXPECT_FALSE(std::filesystem::exists(folder / "node.json.new"));
}

TEST_F(RegistryTest, NoFileIsAnEmptyNode) {
  EXPECT_EQ(*registry.load(), std::nullopt);
}

TEST_F(RegistryTest, ATruncatedFileIsAnError) {
  const std::string whole = state_to_json(example());
  for (size_t length = 0; length < whole.size(); ++length)
    ASSERT_FALSE(state_from_json(whole.substr(0, length)).ok()) << length;
  std::ofstream(file) << whole.substr(0, whole.size() / 2);
  EXPECT_NE(load_error().find("node.json: cannot be understood"), std::string::npos);
}

// A file that can be parsed but does not list instances is not an empty node.
TEST_F(RegistryTest, AFileWithoutWhatSaysWhoRunsIsAnError) {
  const json whole = json::parse(state_to_json(example()));
  const auto error_without = [&](const json::json_pointer& at) {
    json less = whole;
    less[at.parent_pointer()].erase(at.back());
    std::ofstream(file, std::ios::trunc) << less;
    return load_error();
  };
  for (const char* key : {"boot_id", "devices", "instances"})
    EXPECT_NE(error_without(json::json_pointer("/" + std::string(key))).find("is missing"),
              std::string::npos)
        << key;
  for (const char* key : {"state", "pid", "start_time"})
    EXPECT_NE(error_without(json::json_pointer("/instances/0/" + std::string(key))).find("missing"),
              std::string::npos)
        << key;
}

TEST_F(RegistryTest, AFieldOfAWrongTypeIsNamed) {
  const std::pair<const char*, json> wrong[] = {{"/instances", json::object()},
                                                {"/instances/0/pid", "12"},
                                                {"/instances/0/parts", 5},
                                                {"/instances/0/uid", -1},
                                                {"/boot_id", 7},
                                                {"/generation", "3"}};
  for (const auto& [at, value] : wrong) {
    json state = json::parse(state_to_json(example()));
    const json::json_pointer pointer(at);
    state[pointer] = value;
    std::ofstream(file, std::ios::trunc) << state;
    EXPECT_NE(load_error().find(pointer.back()), std::string::npos) << at << ": " << load_error();
  }
}

TEST_F(RegistryTest, WhatAPowerCutLeftInPiecesHoldsNothing) {
  ASSERT_TRUE(registry.save(example()).ok());
  for (const char* pieces : {"", "{\"version\": 1, \"gen"}) {
    std::ofstream(file, std::ios::trunc) << pieces;
    EXPECT_NE(load_error(), "");
    EXPECT_EQ(*Registry(file, "the next boot").load(), std::nullopt);
  }
}

TEST_F(RegistryTest, ANewerVersionIsRefused) {
  std::ofstream(file) << R"({"version": 3})";
  EXPECT_NE(load_error().find("3 is not from 1 to 2"), std::string::npos) << load_error();
}

// In version 1 an instance has no parts, but the fields of one.
constexpr char kVersion1[] = R"({"boot_id":"b00","generation":7,"version":1,
"devices":[{"cores":[4],"device":{"can_resize_sm":true,"drained":false,"id":"cpu0","kind":"cpu",
  "memory":1073741824,"millicores":1000,"node":"here","price_per_hour":0.08,"sm_quantum":500}}],
"instances":[{"batch":4,"batching":{"max_delay_us":500,"max_size":4},"device":"cpu0",
  "device_fault":"","ended":0,"error":"","foreign":false,"function":"default/resnet",
  "id":"resnet-1-k7f2","log":"/data/logs/resnet-1-k7f2.log",
  "model":{"content":"","format":"torchscript","inputs":[],"outputs":[],"path":"/m.pt"},
  "node_fault":false,"owner_pid":0,"owner_start_time":0,"pid":99,
  "position":{"sm_begin":500,"time_begin":100},"program":"/usr/bin/sluice-runtime",
  "ready_after_ms":140,"revision":1,"slice":{"limit":400,"memory":1000,"request":200,"sm":500},
  "socket":"/data/run/i/resnet-1-k7f2.sock","start_time":123456789,"started_ns":12000000000,
  "state":"ready","stopped":false,"uid":61003,"used_ns":0}]})";

TEST_F(RegistryTest, AnInstanceOfVersion1HasOnePart) {
  std::ofstream(file) << kVersion1;
  const auto state = registry.load();
  ASSERT_TRUE(state.ok()) << state.error().message;
  const InstanceRecord& r = (**state).instances.at(0);
  EXPECT_EQ(r.instance.parts, (Parts{{"cpu0", {{500}, {{200}, {400}}, 1000}, {{500}, {100}}}}));
  EXPECT_EQ(r.process.pid, 99);
  ASSERT_TRUE(registry.save(**state).ok());
  EXPECT_EQ(**registry.load(), **state);
}

TEST_F(RegistryTest, AllPartsAreKept) {
  NodeState s = example();
  s.instances[0].instance.parts.push_back({"cpu1", {{1000}, {{300}, {300}}, 0}, {{0}, {700}}});
  ASSERT_TRUE(registry.save(s).ok());
  EXPECT_EQ(**registry.load(), s);
}

TEST_F(RegistryTest, ADiskThatTakesNothingIsAnErrorAndTheOldStateStays) {
  ASSERT_TRUE(registry.save(example()).ok());
  std::filesystem::create_directory(folder / "node.json.new");  // cannot be opened for writing
  NodeState other = example();
  other.generation = 8;
  EXPECT_EQ(registry.save(other).error().kind, ErrorKind::kInternal);
  EXPECT_EQ(**registry.load(), example());
  EXPECT_FALSE(Registry("/dev/full/node.json", "b00").save(other).ok());
}

}  // namespace
}  // namespace sluice::node
