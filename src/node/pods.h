// What the daemon knows of the Pods that are its instances. The controller makes and deletes them,
// the kubelet runs them; the daemon only asks. The agent implements it over the API server's watch.
//
// Belongs to the daemon's io_context, and outlives the daemon.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/instance.h"

namespace sluice::node {

struct PodStatus {
  std::string uid;
  std::string name;   // NAMESPACE/NAME
  std::string phase;  // the API's word, as "Pending"
  std::string why;    // it waits, fails or has ended, as "OOMKilled (exit code 137)"; may be empty
  std::string ip;     // empty: not known yet
  // The runtime's ids, as "CONTAINER" of "containerd://CONTAINER", of the containers that have
  // started. Never of the sandbox. The model server is one of them.
  std::vector<std::string> containers;
  bool prepares = false;  // its model is being fetched
  bool leaves = false;    // it is being deleted: the kubelet has asked it to end
  bool ended = false;     // its containers have ended for good, or it has been deleted

  bool operator==(const PodStatus&) const = default;
};

class Pods {
 public:
  using Listener = std::function<void(const InstanceId&)>;

  virtual ~Pods() = default;

  // Returns the Pod of an instance as it was last seen; nothing if none was seen. `space`: its
  // function's namespace. A Pod of another that calls itself so may be any user's.
  virtual std::optional<PodStatus> find(const std::string& space, const InstanceId& id) const = 0;
  // Returns whether what was seen last is what there is: false while the API server does not
  // answer. No start is given up then.
  virtual bool current() const = 0;
  // Calls it after each change of a Pod from now on; nullptr: not any more.
  virtual void listen(Listener listener) = 0;
};

// In memory, for tests.
class PodsInMemory : public Pods {
 public:
  std::optional<PodStatus> find(const std::string& space, const InstanceId& id) const override {
    const auto found = pods_.find(id);
    const bool is_its = found != pods_.end() && found->second.name == space + "/" + id;
    return is_its ? std::optional(found->second) : std::nullopt;
  }
  bool current() const override { return current_; }
  void listen(Listener listener) override { listener_ = std::move(listener); }

  void set(const InstanceId& id, PodStatus pod) {
    const auto known = pods_.find(id);
    if (known != pods_.end() && known->second == pod) return;
    pods_.insert_or_assign(id, std::move(pod));
    if (listener_) listener_(id);
  }
  void set_current(bool current) { current_ = current; }

 private:
  std::map<InstanceId, PodStatus> pods_;
  bool current_ = true;
  Listener listener_;
};

}  // namespace sluice::node
