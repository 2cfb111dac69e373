#include "control/kube/pod_slices.h"

#include <algorithm>
#include <string_view>

#include "base/log.h"
#include "control/kube/pod_spec.h"
#include "kube/time_text.h"
#include "model/quantity.h"
#include "wire/json/json.h"

namespace sluice::control {
namespace {

using nlohmann::json;
using wire::http::verb;

constexpr UnixMillis kRetry = 5000;
constexpr std::string_view kPrefix = "pod-";  // of a Pod's UID, in the agent's ids

bool has_ended(const PodObject& pod) {
  return pod.phase == "Succeeded" || pod.phase == "Failed";
}

std::string text_of(const PodSlice& p) {
  const Slice& s = p.slice;
  return format_share(s.quota.request) +
         (s.quota.limit == s.quota.request ? "" : " to " + format_share(s.quota.limit)) +
         " of the time of " + format_share(s.sm) + (p.on_gpu() ? " of a GPU" : " of a device");
}

}  // namespace

void PodSlices::turn(UnixMillis wall) {
  std::set<std::string> there;
  for (const auto& [key, pod] : pods_.all()) {
    if (pod->labels.contains(kInstanceLabel) || has_ended(*pod)) continue;
    if (!spaces_.find({"", pod->space})) continue;
    const auto slice = slice_of(pod->annotations);
    if (slice.ok() && !*slice) continue;
    there.insert(pod->uid);
    if (slice.ok()) {
      hold(*pod, **slice, wall);
    } else if (Held& h = held_[pod->uid]; h.why != slice.error().message) {
      h.why = slice.error().message;  // it keeps what it has
      say(*pod, "SliceRefused", h.why, wall);
    }
  }
  std::erase_if(held_, [&](const auto& h) {
    return !there.contains(h.first) && (!h.second.taken || give_back(h.first));
  });
  if (!knows_former_) give_back_former(there);
}

// Returns false if it is to be tried again.
bool PodSlices::give_back(const std::string& uid) {
  const auto gone = api_.json(verb::delete_, "/v1/instances/pod-" + uid);
  return gone.ok() || gone.error().kind == ErrorKind::kNotFound;
}

// An earlier life of ours may have taken slices of Pods that have gone since.
void PodSlices::give_back_former(const std::set<std::string>& there) {
  const auto state = api_.json(verb::get, "/v1/state");
  if (!state.ok()) return;
  knows_former_ = true;
  for (const json& one : state->value("instances", json::array())) {
    const std::string id = one.value("id", ""),
                      uid = id.substr(std::min(id.size(), kPrefix.size()));
    if (id.starts_with(kPrefix) && one.value("foreign", false) && !there.contains(uid))
      knows_former_ &= give_back(uid);
  }
}

void PodSlices::hold(const PodObject& pod, const PodSlice& slice, UnixMillis wall) {
  Held& h = held_[pod.uid];
  const bool again = kube::has_passed(h.tried, wall, kRetry);
  if (h.taken && h.slice == slice) {
    h.why.clear();
    if (again) show_gpu(pod, h);
    return;
  }
  if (h.asked == slice && !h.why.empty() && !again) return;
  h.tried = wall;
  h.asked = slice;
  const bool was_taken = h.taken;
  const Result<void> done = take(pod, slice, h);
  if (done.ok()) {
    h.slice = slice;
    h.why.clear();
    show_gpu(pod, h);
    say(pod, was_taken ? "SliceResized" : "SliceHeld", "It has " + text_of(slice) + ".", wall);
  } else if (done.error().kind == ErrorKind::kUnavailable) {
    return;  // the agent's API is not there yet
  } else if (h.why != done.error().message) {
    h.why = done.error().message;
    say(pod, "NoSlice",
        (h.taken ? "It keeps the slice that it has: " : "Nothing holds it yet: ") + h.why, wall);
  }
}

Result<void> PodSlices::take(const PodObject& pod, const PodSlice& slice, Held& held) {
  const json wanted{{"slice", wire::to_json(slice.slice)}};
  const auto resize = [&] {
    return api_.json(verb::patch, "/v1/processes/pod-" + pod.uid, wanted);
  };
  if (held.taken) {
    const auto resized = resize();
    if (resized.ok()) return {};
    if (resized.error().kind != ErrorKind::kNotFound) return resized.error();
    held.taken = false;
  }
  json body = wanted;
  body.update({{"uid", pod.uid},
               {"name", pod.space + "/" + pod.name},
               {"kind", slice.on_gpu() ? "cuda" : "cpu"}});
  SLUICE_ASSIGN(taken, api_.json(verb::post, "/v1/pods", body));
  held.taken = true;
  held.slice = {};  // perhaps another, since an earlier life of ours
  held.gpu = taken.value("/environment/CUDA_VISIBLE_DEVICES"_json_pointer, "");
  if (taken.value("slice", json()) == wanted["slice"]) return {};
  SLUICE_TRY(resize());
  return {};
}

// By the status, since the right to change Pods themselves would be one to run anything anywhere.
void PodSlices::show_gpu(const PodObject& pod, const Held& held) {
  const auto shown = pod.annotations.find(kGpuAnnotation);
  if (held.gpu.empty() || (shown != pod.annotations.end() && shown->second == held.gpu)) return;
  json patch{{"metadata", {{"uid", pod.uid}, {"annotations", {{kGpuAnnotation, held.gpu}}}}}};
  events_.put("gpu of " + pod.uid,
              kube::Call(verb::patch, path_in("/api/v1/pods", pod.space, pod.name) + "/status",
                         std::move(patch), kube::kMergePatch));
}

void PodSlices::say(const PodObject& pod, const std::string& reason, const std::string& message,
                    UnixMillis wall) {
  const std::string now = kube::second_time(wall);
  const bool good = reason == "SliceHeld" || reason == "SliceResized";
  log::info("{}/{}: {}", pod.space, pod.name, message);
  json event{
      {"apiVersion", "v1"},
      {"kind", "Event"},
      {"metadata", {{"name", pod.name + "." + std::to_string(wall)}, {"namespace", pod.space}}},
      {"involvedObject",
       {{"apiVersion", "v1"},
        {"kind", "Pod"},
        {"namespace", pod.space},
        {"name", pod.name},
        {"uid", pod.uid}}},
      {"reason", reason},
      {"message", message},
      {"type", good ? "Normal" : "Warning"},
      {"source", {{"component", "sluice-agent"}}},
      {"firstTimestamp", now},
      {"lastTimestamp", now},
      {"count", 1}};
  events_.put("event " + pod.uid + reason,
              kube::Call(verb::post, path_in("/api/v1/events", pod.space), std::move(event)));
}

}  // namespace sluice::control
