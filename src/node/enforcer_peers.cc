// Which part of which instance a process that comes to a permit socket belongs to.
#include <fstream>
#include <string>

#include "node/enforcer.h"

namespace sluice::node {
namespace {

// Whether a process stands in the group of that name, in any hierarchy.
bool in_group(pid_t pid, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cgroup");
  for (std::string line; std::getline(file, line);)
    if (line.ends_with("/" + name)) return true;
  return false;
}

}  // namespace

bool Enforcer::is_under(const Client& c, const Peer& peer) const {
  return c.process == peer.process || (c.uid != 0 && c.uid == peer.uid) ||
         (c.cgroup && in_group(peer.process.pid, c.cgroup->name())) ||
         (!c.pod_uid.empty() && container_of(peer.process.pid, c.pod_uid));
}

// Whose slice a process is under: its own, that of its uid (no two programs share one, but the
// parts of one do; forks share their template's), that of the group which it was born into; where
// there are no groups, that of its nearest ancestor. At a slice's own socket it is that one, or
// none, and its owner's processes (and root's) belong to it wherever they are. But where the kernel
// counts what is used they have to be under it all the same, or what they use would belong to no
// slice.
std::optional<Enforcer::Holder> Enforcer::slice_of(const Peer& peer) const {
  const auto may_be = [&](const InstanceId& id) {
    return peer.slice.empty() || (peer.slice == id && peer.process.pid != 0);
  };
  if (const auto own = clients_.find(peer.slice); own != clients_.end()) {
    const Client& c = own->second.front();
    if (!c.counted_by_kernel && (peer.uid == c.owner || peer.uid == 0)) return Holder{own->first};
  }
  const auto first_that = [&](const auto& holds) -> std::optional<Holder> {
    for (const auto& [id, clients] : clients_)
      for (size_t part = 0; part < clients.size(); ++part)
        if (may_be(id) && holds(clients[part])) return Holder{id, part};
    return std::nullopt;
  };
  if (auto holder = first_that([&](const Client& c) { return is_under(c, peer); })) return holder;
  if (!cgroups_.writable())
    for (const ProcessIdentity& ancestor : ancestors_of(peer.process.pid))
      if (auto holder = first_that([&](const Client& c) { return c.process == ancestor; }))
        return holder;
  return std::nullopt;
}

// A process on a CPU is under one part, and has one device. On GPUs it is under all parts: its
// devices are theirs, in their order.
Result<Placement> Enforcer::look_up(const Peer& peer, uint32_t device) {
  const std::lock_guard lock(mutex_);
  const std::optional<Holder> holder = slice_of(peer);
  if (!holder) return Error{ErrorKind::kNotFound, "the process holds no slice here"};
  std::vector<Client>& parts = clients_.at(holder->id);
  parts[holder->part].joined = peer.process;
  const size_t devices = parts[holder->part].counted_by_kernel ? 1 : parts.size();
  if (device >= devices)
    return Error{ErrorKind::kInvalid, "device: " + std::to_string(device) +
                                          ": the process's slice is on " + std::to_string(devices) +
                                          " here, counted from 0"};
  const Client& c = parts[holder->part + device];
  return Placement{host_.get(), c.ref, c.memory};
}

}  // namespace sluice::node
