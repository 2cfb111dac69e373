// What is known of GPUs beside what NVML says, and what is said where there is no NVML.
#include "gpu/nvml.h"

#include <gmock/gmock.h>

namespace sluice::node {
namespace {

TEST(NvmlLoader, ALibraryThatIsNoneIsSaid) {
  const auto why = [](const char* library) {
    const auto nvml = Nvml::open(library);
    EXPECT_FALSE(nvml.ok());
    EXPECT_EQ(nvml.error().kind, ErrorKind::kUnavailable);
    return nvml.error().message;
  };
  EXPECT_EQ(
      why("/nowhere/libnvidia-ml.so.1"),
      "/nowhere/libnvidia-ml.so.1: cannot open shared object file: No such file or directory");
  EXPECT_THAT(why("libc.so.6"), testing::HasSubstr("libc.so.6: has no nvml"));
}

TEST(NvmlFacts, SmsFollowFromCoresAndArchitecture) {
  EXPECT_EQ(sms_of(16896, 90), 132);  // H100 SXM
  EXPECT_EQ(sms_of(6912, 80), 108);   // A100
  EXPECT_EQ(sms_of(10752, 86), 84);   // A40
  EXPECT_EQ(sms_of(5120, 70), 80);    // V100
  EXPECT_EQ(sms_of(2560, 75), 40);    // T4
  EXPECT_EQ(sms_of(3584, 60), 56);    // P100
  EXPECT_EQ(sms_of(0, 90), 0);
  EXPECT_EQ(sms_of(21760, 120), 170);  // RTX 5090
  EXPECT_EQ(sms_of(2880, 35), 0) << "not known, and not guessed";
  EXPECT_EQ(sms_of(21760, 200), 0);
}

TEST(NvmlFacts, AProgramsOwnXidIsNoFault) {
  for (const uint64_t xid : {13, 31, 43, 45, 68, 109}) EXPECT_FALSE(is_fault(xid)) << xid;
  for (const uint64_t xid : {48, 62, 74, 79, 95, 119}) EXPECT_TRUE(is_fault(xid)) << xid;
}

}  // namespace
}  // namespace sluice::node
