#include "trace/job_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/folder.h"

namespace sluice::trace {
namespace {

using testing::HasSubstr;

class JobLists : public testing::Test {
 protected:
  Result<std::vector<ListedJob>> read(const std::string& text, const JobListOptions& options = {}) {
    std::ofstream(file_) << text;
    return read_job_list(file_, options);
  }
  std::string fault(const std::string& text, const JobListOptions& options = {}) {
    const auto jobs = read(text, options);
    return jobs.ok() ? "" : jobs.error().message;
  }

  const TemporaryFolder folder_;
  const std::string file_ = folder_.path + "/jobs.csv";
};

TEST_F(JobLists, AreInTheOrderOfSubmissionAndCountFromTheFirst) {
  const auto jobs =
      read("submit,name,model,epochs,devices,priority\n50,b,m,2,4,\n20,a,m,1.5,,-3\n");
  ASSERT_TRUE(jobs.ok()) << jobs.error().message;
  EXPECT_EQ((*jobs)[0], (ListedJob{.name = "a", .model = "m", .epochs = 1.5, .priority = -3}));
  EXPECT_EQ(
      (*jobs)[1],
      (ListedJob{.submitted = Seconds(30), .name = "b", .model = "m", .epochs = 2, .devices = 4}));
}

TEST_F(JobLists, HaveTheColumnsThatTheirPublisherChose) {
  const auto jobs = read(
      "timestamp,cluster,duration_s,gpus\n2017-09-04 10:30:41,c,60,8\n"
      "2017-09-04 10:31:41,c,5,1\n",
      {.columns = {{"submit", "timestamp"}, {"duration", "duration_s"}, {"devices", "gpus"}},
       .skip = 1});
  ASSERT_TRUE(jobs.ok()) << jobs.error().message;
  EXPECT_EQ(*jobs, (std::vector<ListedJob>{{.duration = Seconds(5), .devices = 1}}));
}

TEST_F(JobLists, NameTheLineTheColumnAndWhatIsAllowed) {
  EXPECT_THAT(fault("time,model\n1,m\n"), HasSubstr("there is no column 'submit'; there are time"));
  EXPECT_THAT(fault("submit\n1\n", {.columns = {{"model", "application"}}}),
              HasSubstr("there is no column 'application'"));
  EXPECT_THAT(fault("submit,epochs\n1,2\nsoon,2\n"),
              HasSubstr("jobs.csv:3 submit: 'soon' is no time; allowed are seconds"));
  EXPECT_THAT(fault("submit,n\n1,-2\n", {.columns = {{"devices", "n"}}}),
              HasSubstr("jobs.csv:2 n: '-2' is no number from 0 to 10000"));
  EXPECT_THAT(fault("submit\n1\n", {.skip = 1}), HasSubstr("it has no such job"));
}

}  // namespace
}  // namespace sluice::trace
