#include "control/summary.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

namespace sluice::control {
namespace {

using Words = std::pair<std::string_view, std::string_view>;

constexpr Words kHappened[] = {{"start", "started"},      {"stop", "stopped"},
                               {"resize", "resized"},     {"unmet", "unmet"},
                               {"lost", "lost"},          {"apply", "applied"},
                               {"rollout", "rolled out"}, {"rollback", "rolled back"},
                               {"delete", "deleted"},     {"drain", "cordoned"},
                               {"undrain", "uncordoned"}, {"notice", "noticed"},
                               {"profile", "learned"},    {"loan", "moved a server"}};

constexpr Words kWhy[] = {{"keep-alive", "always stays"},
                          {"new-device", "more load"},
                          {"used-device", "more load"},
                          {"vertical-up", "more load"},
                          {"vertical-down", "less load"},
                          {"scale-in", "less load"},
                          {"shift", "moved for a neighbour"},
                          {"refined", "live instances"},
                          {"drained-device", "device cordoned"},
                          {"server-lent", "server lent to training"},
                          {"server-reclaimed", "server goes back to inference"},
                          {"server-returned", "server is back"},
                          {"retired", "revision has no traffic"},
                          {"cluster-full", "no room"},
                          {"max-replicas", "maxReplicas"},
                          {"slo-impossible", "objective too short"},
                          {"never-measured", "times never measured"},
                          {"start", "too few"},
                          {"stop", "too many"},
                          {"replaced", "others are ready"},
                          {"asked", ""},
                          {"created", "new function"},
                          {"changed", "new revision"},
                          {"traffic", "traffic split"},
                          {"newest-ready", "newest is ready"},
                          {"none-serves", "no instance"},
                          {"set-apart", "set apart"},
                          {"rollout-failed", "given up"},
                          {"start-backoff", "waits after a failed start"},
                          {"start-given-up", "given up"},
                          {"start-lost", "did not appear"},
                          {"instance-ended", "ended"},
                          {"node-rebooted", "its node was rebooted"},
                          {"overdue", "does not answer"},
                          {"straggler", "does not answer"},
                          {"fault", "device fault"},
                          {"ungated", "without a permit"},
                          {"unheld", "not held to its slice"},
                          {"held", "held to its slice again"}};

std::string in_words(std::span<const Words> table, const std::string& word) {
  const auto found = std::ranges::find(table, word, &Words::first);
  return found == table.end() ? word : std::string(found->second);
}

}  // namespace

std::string summary(const Decision& d) {
  std::string why = in_words(kWhy, d.reason.rule);
  if (d.reason.rule == "keep-alive" && d.reason.text.starts_with("One ")) why = "one " + why;
  std::string text = in_words(kHappened, d.action) + (why.empty() ? "" : " (" + why + ")");
  return d.fault.empty() ? text : "not " + text;
}

}  // namespace sluice::control
