#include "trace/clusters.h"

#include <gmock/gmock.h>

#include <fstream>

#include "tests/support/folder.h"

namespace sluice::trace {
namespace {

using testing::ElementsAre;

class ClusterFiles : public testing::Test {
 protected:
  std::string file(const std::string& text) {
    const std::string path = folder_.path + "/trace";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  template <class Read>
  std::string fault(const Read& read, const std::string& text) {
    const auto all = read(file(text));
    return all.ok() ? "none" : all.error().message.substr(folder_.path.size() + 1);
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(ClusterFiles, NodesOfOpenb) {
  EXPECT_THAT(*read_openb_nodes(file("sn,cpu_milli,memory_mib,gpu,model\n"
                                     "openb-node-0000,64000,262144,2,P100\n")),
              ElementsAre(RecordedNode{"openb-node-0000", 64000, Bytes{256} << 30, 2, "P100"}));
}

TEST_F(ClusterFiles, APodOfOpenbHoldsAShareOfItsGpu) {
  EXPECT_THAT(
      *read_openb_pods(file("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
                            "creation_time,deletion_time,scheduled_time\n"
                            "p,6000,1024,1,460,V100M16|V100M32,LS,Running,10,,10\n")),
      ElementsAre(RecordedJob{.name = "p",
                              .kind = "LS",
                              .begin = Seconds(10),
                              .end = std::nullopt,
                              .gpus = 1,
                              .request = {460},
                              .limit = {460},
                              .memory = {},
                              .millicores = 6000,
                              .host_memory = Bytes{1} << 30,
                              .gpu_models = {"V100M16", "V100M32"}}));
}

TEST_F(ClusterFiles, PodsOfOpenbWithoutTimesOrModelsBeginAtOnceAndRunAnywhere) {
  const auto plain =
      *read_openb_pods(file("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,88000,2,8,1000\n"));
  EXPECT_THAT(plain, ElementsAre(RecordedJob{.name = "p",
                                             .kind = "",
                                             .begin = {},
                                             .end = std::nullopt,
                                             .gpus = 8,
                                             .request = {1000},
                                             .limit = {1000},
                                             .memory = {},
                                             .millicores = 88000,
                                             .host_memory = Bytes{2} << 20,
                                             .gpu_models = {}}));
  EXPECT_THAT((*read_openb_pods(file("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
                                     "p,1,2,1,460,P100|T4\n")))[0]
                  .gpu_models,
              ElementsAre("P100", "T4"));
  EXPECT_EQ(fault(read_openb_pods,
                  "name,cpu_milli,memory_mib,num_gpu,gpu_milli,deletion_time\np,1,2,1,460,9\n"),
            "trace:2 there is no column 'creation_time'; there are name, cpu_milli, memory_mib, "
            "num_gpu, gpu_milli and deletion_time");
}

constexpr const char* kStart =
    "{'Time': '2024-06-19 15:46:09', 'Action': 'start', 'Instance': {'service_name': 't', 'type': "
    "'training', 'gpu_num': 2, 'sm_requests': 0.55, 'sm_limits': 0.81, 'memory': [30, 30]}}\n";
constexpr const char* kDelete =
    "{'Time': '2024-06-19 15:46:19', 'Action': 'delete', 'Instance': {'service_name': 't', 'type': "
    "'training', 'gpu_num': 2, 'sm_requests': 0.55, 'sm_limits': 0.81, 'memory': [30, 30]}}\n";

TEST_F(ClusterFiles, AnInstanceOfDiluRunsFromItsStartToItsDeletion) {
  const auto jobs = *read_dilu_instances(file(std::string(kStart) + kDelete));
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].request, Share{550});
  EXPECT_EQ(jobs[0].limit, Share{810});
  EXPECT_THAT(jobs[0].memory, ElementsAre(30'000'000'000, 30'000'000'000));
  EXPECT_EQ(jobs[0].end, Seconds(10));
}

TEST_F(ClusterFiles, AFaultNamesItsLine) {
  EXPECT_EQ(fault(read_openb_nodes, "sn,cpu_milli,memory_mib,gpu,model\na,1,1,-2,P100\n"),
            "trace:2 gpu: '-2' is no number from 0 to 1024");
  EXPECT_EQ(fault(read_openb_nodes, "sn,cpu_milli\na,1\n"),
            "trace:2 there is no column 'memory_mib'; there are sn and cpu_milli");
  EXPECT_EQ(fault(read_dilu_instances, kDelete), "trace:1 service_name: 't' does not run");
  EXPECT_EQ(fault(read_dilu_instances, std::string(kStart) + kStart),
            "trace:2 service_name: 't' runs already");
  EXPECT_EQ(fault(read_dilu_instances, std::string(kDelete) + "{"),
            "trace:1 service_name: 't' does not run");
  EXPECT_EQ(fault(read_dilu_instances, "{'Time': 1}"), "trace:1 Time: there is no such text");
  EXPECT_EQ(fault(read_dilu_instances, "{"), "trace:1 the line is no dictionary");
}

}  // namespace
}  // namespace sluice::trace
