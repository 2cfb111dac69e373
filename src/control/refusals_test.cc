#include "control/refusals.h"

#include <gtest/gtest.h>

#include "wire/json.h"

namespace sluice::control {
namespace {

TEST(Refusals, NameTheActionWhatItIsAboutAndWhatIsMissing) {
  const struct {
    Wanted what;
    const char *name, *subject, *said;
  } cases[] = {
      {StartGang{{StartInstance{}}}, "start-gang", "default/f",
       "start-gang is not executed: instances start one by one"},
      {MoveInstance{"i1", "cpu0", "cpu1", {}}, "move", "i1",
       "move is not executed: start an instance on the other device, and stop this one when that "
       "is ready"},
      {Loan{"cpu0", "training", "inference", Seconds(60)}, "loan", "cpu0",
       "loan is not executed: there are no virtual clusters"},
      {SetTraining{"i1", 64, 0.1}, "set-training", "i1",
       "set-training is not executed: there are no training jobs"}};
  for (const auto& c : cases) {
    const Action action{{"default", "f"}, c.what, {}};
    EXPECT_EQ(refusal_of(c.what).message, c.said);
    EXPECT_EQ(subject_of(action), c.subject);
    EXPECT_EQ(wire::to_json(action)["action"], c.name);
  }
}

}  // namespace
}  // namespace sluice::control
