// The environment of a program under a slice.
#include "node/program_environment.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/folder.h"

namespace sluice::node {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

constexpr char kSocket[] = "/run/permit.sock";
const Device kGpu{.id = "cuda0", .kind = DeviceKind::kCuda, .uuid = "GPU-a"};

TEST(ProgramEnvironment, OnACpuTheGateAndItsSocket) {
  const auto e = environment_on({{.id = "cpu0"}}, {.sm = kWhole}, kSocket, {});
  EXPECT_THAT(e.preload, ElementsAre("libsluice_gate.so"));
  EXPECT_THAT(e.library_path, ElementsAre());
  EXPECT_THAT(e.variables, UnorderedElementsAre(Pair("SLUICE_PERMIT_SOCKET", kSocket)));
}

TEST(ProgramEnvironment, OnAGpuTheHookAndThatGpuAlone) {
  const auto e = environment_on({kGpu}, {.sm = kWhole}, kSocket, {});
  EXPECT_THAT(e.preload, ElementsAre("libsluice_cuda.so", "libsluice_nvml.so"));
  EXPECT_THAT(e.library_path, ElementsAre("driver"));
  EXPECT_THAT(e.variables, UnorderedElementsAre(Pair("SLUICE_PERMIT_SOCKET", kSocket),
                                                Pair("CUDA_VISIBLE_DEVICES", "GPU-a"),
                                                Pair("SLUICE_VISIBLE_DEVICES", "GPU-a")));
}

TEST(ProgramEnvironment, OnSeveralGpusThoseInTheirOrder) {
  const Device other{.id = "cuda1", .kind = DeviceKind::kCuda, .uuid = "GPU-b"};
  const auto e = environment_on({other, kGpu}, {.sm = kWhole}, kSocket, {});
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "SLUICE_VISIBLE_DEVICES"})
    EXPECT_EQ(e.variables.at(name), "GPU-b,GPU-a");
}

TEST(ProgramEnvironment, AsAClientOfMpsItsShareOfSmsAndItsMemory) {
  const Slice slice{.sm = {120}, .memory = (Bytes{3} << 30) + 1};
  EXPECT_THAT(environment_on({kGpu}, slice, kSocket, {.mps_pipes = "/run/mps/cuda0"}).variables,
              UnorderedElementsAre(Pair("SLUICE_PERMIT_SOCKET", kSocket),
                                   Pair("CUDA_VISIBLE_DEVICES", "GPU-a"),
                                   Pair("SLUICE_VISIBLE_DEVICES", "GPU-a"),
                                   Pair("CUDA_MPS_PIPE_DIRECTORY", "/run/mps/cuda0"),
                                   Pair("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "12"),
                                   Pair("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=3073M")));
}

TEST(ProgramEnvironment, WhereItsGpusModelsAreShared) {
  EXPECT_THAT(
      environment_on({kGpu}, {.sm = kWhole}, kSocket, {.model_store = "/run/store.sock"}).variables,
      testing::Contains(Pair("SLUICE_MODEL_STORE", "/run/store.sock")));
}

TEST(ProgramEnvironment, WithoutAMemorySizeMpsHoldsNone) {
  EXPECT_FALSE(environment_on({kGpu}, {.sm = kWhole}, kSocket, {.mps_pipes = "/p"})
                   .variables.contains("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"));
}

TEST(WithEnvironment, LibrariesComeInFrontAndVariablesInPlaceOfOthers) {
  const TemporaryFolder folder;
  for (const char* name : {"/a.so", "/b.so", "/driver"}) std::ofstream(folder.path + name) << "";
  const ProgramEnvironment added{
      .preload = {"a.so", "b.so"}, .library_path = {"driver"}, .variables = {{"GPU", "mine"}}};
  const Result<Variables> all = with_environment(
      {{"LD_PRELOAD", "/theirs.so"}, {"GPU", "theirs"}, {"HOME", "/"}}, added, folder.path);
  EXPECT_THAT(*all, UnorderedElementsAre(Pair("LD_PRELOAD", folder.path + "/a.so:" + folder.path +
                                                                "/b.so:/theirs.so"),
                                         Pair("LD_LIBRARY_PATH", folder.path + "/driver"),
                                         Pair("GPU", "mine"), Pair("HOME", "/")));
  EXPECT_THAT(as_words({{"A", "1"}, {"B", ""}}), ElementsAre("A=1", "B="));
}

TEST(WithEnvironment, AMissingLibraryIsAnError) {
  const TemporaryFolder folder;
  const Result<Variables> all = with_environment({}, {.preload = {"a.so"}}, folder.path);
  EXPECT_EQ(all.error().message,
            folder.path + "/a.so: missing: without it a program is not held to its slice");
}

TEST(OwnVariables, AreThisProcesss) {
  setenv("SLUICE_FOR_TEST", "a=b", 1);
  EXPECT_EQ(own_variables().at("SLUICE_FOR_TEST"), "a=b");
  unsetenv("SLUICE_FOR_TEST");
}

}  // namespace
}  // namespace sluice::node
