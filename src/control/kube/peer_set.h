// PeerSet: the agents, or the gateways, of a cluster, which come and go. Each has a connection of
// its own (peer_calls.h).
//
// One thread, the loop's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "control/peers/orders_wait.h"
#include "control/peers/settling.h"
#include "wire/http/endpoint.h"

namespace sluice::control {

// Returns how an agent or gateway is called. Any thread calls it.
using ConnectPeer = std::function<wire::HttpServerAddress(const wire::Endpoint& peer)>;

// Peer: NodePeer or GatewayPeer.
template <class Peer>
class PeerSet {
 public:
  // The references outlive it.
  PeerSet(PeerThread& thread, ConnectPeer connect, OrdersWait& wait, Settling& settling)
      : thread_(thread), connect_(std::move(connect)), wait_(wait), settling_(settling) {}

  // The cluster has these peers, and no others: their endpoints by name. One without an endpoint
  // cannot be called.
  void list(const std::map<std::string, std::string>& endpoints) {
    std::erase_if(entries_, [&](const auto& entry) { return !endpoints.contains(entry.first); });
    for (const auto& [name, endpoint] : endpoints)
      if (Entry& entry = entries_[name]; entry.endpoint != endpoint) enter(entry, name, endpoint);
  }

  // Begins a poll of each, or of one.
  void poll() {
    for (auto& [name, entry] : entries_)
      if (entry.peer) entry.peer->poll();
  }
  void poll(const std::string& name) {
    if (Peer* peer = find(name)) peer->poll();
  }
  // Returns whether each has answered its calls, or has not for `away`. A call to a peer that is
  // cut off lasts until its timeout, and then comes the next one. So a silent peer is waited for
  // once, until it answers again.
  bool settled(Nanos away) const {
    for (const auto& [name, entry] : entries_)
      if (entry.peer && !entry.silent && entry.peer->calls().busy_within(away)) return false;
    return true;
  }
  // The poll of that peer was answered, or was not. Logs why, once.
  void note(const std::string& name, bool answered) {
    Entry& entry = entries_.at(name);
    entry.silent = !answered;
    const std::string fault = entry.peer ? entry.peer->fault() : "";
    if (entry.fault == fault) return;
    entry.fault = fault;
    if (!fault.empty()) log::warn("{}: {}", name, fault);
  }

  // Returns nullptr if it has no endpoint, or is not listed.
  Peer* find(const std::string& name) {
    const auto entry = entries_.find(name);
    return entry == entries_.end() ? nullptr : entry->second.peer.get();
  }
  bool contains(const std::string& name) const { return entries_.contains(name); }

 private:
  struct Entry {
    std::string endpoint;
    std::unique_ptr<Peer> peer;
    bool silent = false;  // the last poll was not answered
    std::string fault;    // that was logged
  };

  void enter(Entry& entry, const std::string& name, const std::string& endpoint) {
    entry.peer.reset();
    entry.endpoint = endpoint;
    entry.silent = false;
    const auto at = wire::parse_endpoint(endpoint);
    if (endpoint.empty() || !at.ok()) return;
    const auto server = [connect = connect_, at = *at] { return connect(at); };
    entry.peer =
        std::make_unique<Peer>(thread_, PeerAddress{name + " at " + endpoint, kTimeout, server},
                               name, wait_, settling_.on_quiet());
  }

  static constexpr Nanos kTimeout = Seconds(5);  // of a call

  PeerThread& thread_;
  const ConnectPeer connect_;
  OrdersWait& wait_;
  Settling& settling_;
  std::map<std::string, Entry> entries_;
};

}  // namespace sluice::control
