#include "control/kube/function_status.h"

#include <gtest/gtest.h>

namespace sluice::control {
namespace {

using nlohmann::json;

std::string conditions(const json& status) {
  std::string out;
  for (const json& c : status["conditions"])
    out += c["type"].get<std::string>() + "=" + c["status"].get<std::string>() + " " +
           c["reason"].get<std::string>() + "; ";
  return out;
}

TEST(FunctionStatus, SaysWhatAFunctionIsUpTo) {
  const json serving{{"revision", 2},
                     {"serving", 2},
                     {"rps", 12.345},
                     {"replicas", {{"ready", 1}, {"starting", 0}, {"min", 1}}}};
  json starting = serving, failing = serving, zero = serving, few = serving;
  starting["replicas"] = {{"ready", 0}, {"starting", 1}, {"min", 1}};
  json lacking = starting;
  lacking["start_error"] = "its Pod is Pending: ErrImagePull";
  json nowhere = lacking;  // its node ended it, and came back without its device
  nowhere["replicas"]["starting"] = 0;
  nowhere["unavailable"] = "no device is of a type that its file allows";
  failing["start_failures"] = 2;
  failing["replicas"]["ready"] = 0;
  failing["unavailable"] = "the model is gone";
  few["replicas"]["min"] = 6;
  zero["replicas"] = {{"ready", 0}, {"starting", 0}, {"min", 0}};
  const Applying accepted{3, true, ""}, refused{4, false, "spec.slo.latency: '0s'"};
  const auto of = [](const json& row, const Applying& a) {
    return conditions(status_of(row, a, json::object(), 0));
  };
  EXPECT_EQ(of(serving, accepted),
            "Ready=True Serving; Progressing=False Settled; Degraded=False AsExpected; ");
  EXPECT_EQ(of(starting, accepted),
            "Ready=False Starting; Progressing=True Starting; Degraded=False AsExpected; ");
  EXPECT_EQ(of(failing, accepted),
            "Ready=False Unavailable; Progressing=False Unavailable; Degraded=True StartsFail; ");
  EXPECT_EQ(of(lacking, accepted),
            "Ready=False Starting; Progressing=True Starting; Degraded=True StartsFail; ");
  EXPECT_EQ(of(nowhere, accepted),
            "Ready=False Unavailable; Progressing=False Unavailable; Degraded=True TooFew; ");
  EXPECT_EQ(of(few, accepted),
            "Ready=True Serving; Progressing=False Settled; Degraded=True TooFew; ");
  EXPECT_EQ(of(zero, accepted),
            "Ready=True ScaledToZero; Progressing=False Settled; Degraded=False AsExpected; ");
  EXPECT_EQ(of(serving, refused),
            "Ready=True Serving; Progressing=False Settled; Degraded=True Refused; ")
      << "the revision before serves on";
  EXPECT_EQ(of(json(), refused),
            "Ready=False Refused; Progressing=False NotAccepted; Degraded=True Refused; ");
  EXPECT_EQ(of(json(), {3, false, ""}),
            "Ready=False Checking; Progressing=True Checking; Degraded=False AsExpected; ");
}

TEST(FunctionStatus, AConditionThatStaysKeepsItsTime) {
  const json row{{"replicas", {{"ready", 1}}}};
  const Applying accepted{1, true, ""};
  const json first = status_of(row, accepted, json::object(), 1000);
  const json second = status_of(row, accepted, first, 99'000);
  EXPECT_EQ(first["conditions"], second["conditions"]);
  const json third = status_of({{"replicas", {{"ready", 0}}}}, accepted, second, 99'000);
  EXPECT_NE(third["conditions"][0]["lastTransitionTime"],
            first["conditions"][0]["lastTransitionTime"]);
}

TEST(FunctionStatus, RatesAloneMayWait) {
  const json row{{"rps", 10.04}, {"replicas", {{"ready", 1}}}};
  json faster = row, more = row;
  faster["rps"] = 99.0;
  more["replicas"]["ready"] = 2;
  const auto of = [](const json& r) { return status_of(r, {1, true, ""}, json::object(), 0); };
  EXPECT_FALSE(differ_in_state(of(row), of(faster)));
  EXPECT_TRUE(differ_in_state(of(row), of(more)));
  EXPECT_EQ(of(row)["rate"], 10.0);
  EXPECT_EQ(of({{"rps", 1.9001}, {"replicas", {{"ready", 1}}}})["rate"].dump(), "1.9");
}

// An Event or a condition that is no UTF-8 is refused.
TEST(FunctionStatus, ALongMessageIsCutBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += "ä–ß ";
  for (const char* begin : {"", "a", "ab"}) {
    const json event = event_of({{"fault", begin + text}}, "uid", "InferenceFunction", 0);
    const json status = status_of(json(), {1, false, begin + text}, json::object(), 0);
    EXPECT_NO_THROW((void)event.dump());
    EXPECT_NO_THROW((void)status.dump());
    EXPECT_TRUE(event["message"].get<std::string>().ends_with("…"));
  }
}

}  // namespace
}  // namespace sluice::control
