#include "cli/profile_subject.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "wire/json/json.h"

namespace sluice::cli {
namespace {

using nlohmann::json;
using wire::http::verb;

constexpr Nanos kDrain = Seconds(1);
constexpr Nanos kPollEvery = Millis(100);
constexpr Nanos kEndTimeout = Seconds(60);  // longer than the daemon waits before it kills

// What becomes an instance's limit. (On a CPU the node allows 64 MiB more.)
Bytes memory_of(const json& instance, const Device& device) {
  if (device.kind == DeviceKind::kCpu) return instance.value("peak_memory", Bytes{0});
  constexpr Bytes kSlack = Bytes{64} << 20;
  const Bytes held = instance.value("memory_held", Bytes{0});
  return held > 0 ? std::min(held + kSlack, device.memory) : 0;
}

// Returns the row with that id; an empty one if there is none.
json row_of(const json& rows, const std::string& id) {
  for (const json& row : rows)
    if (row.value("id", "") == id) return row;
  return json::object();
}

}  // namespace

Subject::Subject(wire::HttpClient& node, json order, const Device& device, Nanos start_timeout,
                 const std::atomic<bool>* stop)
    : node_(node),
      order_(std::move(order)),
      name_(order_["id"].get<std::string>()),
      device_(device),
      start_timeout_(start_timeout),
      stop_(stop) {}

Subject::~Subject() {
  if (!id_.empty())
    (void)node_.json(verb::delete_, "/v1/instances/" + id_, {{"drain_ms", kDrain / Millis(1)}});
}

Result<void> Subject::take(const Slice& slice) {
  if (!id_.empty() && slice == slice_) return {};
  const bool resizes = slice.sm == slice_.sm || device_.can_resize_sm;
  if (!id_.empty() && resizes) {
    const auto resized =
        node_.json(verb::patch, "/v1/instances/" + id_, {{"slice", wire::to_json(slice)}});
    if (!resized.ok()) return resized.error();
  } else {
    SLUICE_TRY(end());
    SLUICE_TRY(start(slice));
  }
  slice_ = slice;
  return {};
}

Result<void> Subject::start(const Slice& slice) {
  const std::string id = name_ + "-" + std::to_string(++starts_);
  order_["id"] = id;
  order_["slice"] = wire::to_json(slice);
  const auto started = node_.json(verb::post, "/v1/instances", order_);
  if (!started.ok()) return started.error();
  id_ = id;
  SLUICE_ASSIGN(ready, wait_until("ready", start_timeout_));
  if (ready.value("state", "") != "ready") return {};
  SLUICE_ASSIGN(address, wire::parse_endpoint(ready.value("socket", "")));
  http_ = std::make_unique<wire::HttpClient>(address, Seconds(120));
  return {};
}

// Its slice is free once it is gone.
Result<void> Subject::end() {
  if (id_.empty()) return {};
  http_.reset();
  const auto asked =
      node_.json(verb::delete_, "/v1/instances/" + id_, {{"drain_ms", kDrain / Millis(1)}});
  if (!asked.ok()) return asked.error();
  const auto gone = wait_until("gone", kEndTimeout);
  if (!gone.ok() && gone.error().kind != ErrorKind::kNotFound) return gone.error();
  id_.clear();
  return {};
}

Result<json> Subject::wait_until(const std::string& wanted, Nanos patience) {
  for (Nanos waited{0}; waited < patience; waited += kPollEvery) {
    SLUICE_ASSIGN(record, node_.json(verb::get, "/v1/instances/" + id_));
    const std::string now = record.value("state", "");
    if (now == wanted || (stop_ != nullptr && *stop_)) return record;
    if (now == "gone")
      return Error{ErrorKind::kInternal,
                   "the instance to measure ended: " + record.value("error", "")};
    std::this_thread::sleep_for(kPollEvery);
  }
  return Error{ErrorKind::kTimeout, "the instance to measure was not " + wanted + " within " +
                                        std::to_string(patience / Seconds(1)) + " s"};
}

Result<SubjectUse> Subject::use() {
  SLUICE_ASSIGN(state, node_.json(verb::get, "/v1/state"));
  const json device = row_of(state["devices"], device_.id);
  const json instance = row_of(state["instances"], id_);
  memory_ = std::max(memory_, memory_of(instance, device_));
  SubjectUse use{.busy = Nanos(instance.value("used_ns", int64_t{0})), .occupancy = {}};
  if (device.contains("sm_occupancy")) use.occupancy = Share{device.value("sm_occupancy", 0)};
  return use;
}

}  // namespace sluice::cli
