#include "cli/flags_differ.h"

#include <gtest/gtest.h>

namespace sluice::cli {
namespace {

using Words = std::vector<std::string>;

TEST(FlagsDiffer, SaysWhatRunsAndWhatIsWanted) {
  const Words running{"/old/sluice", "control", "--data",    "/d",
                      "--policy",    "fixed",   "--devices", "4"};
  EXPECT_EQ(flags_that_differ(running, running), "");
  EXPECT_EQ(flags_that_differ(running, {"/new/sluice", "control", "--policy", "has-gpu", "--data",
                                        "/d", "--tls-cert", "x.pem"}),
            "--policy fixed (not has-gpu), no --tls-cert (x.pem), --devices 4 (not given now)");
  EXPECT_EQ(flags_that_differ({}, {"sluice", "node"}), "");
}

}  // namespace
}  // namespace sluice::cli
