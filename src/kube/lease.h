// Leader election by a Lease (coordination.k8s.io/v1), as Kubernetes' own components do it: one
// holder at a time, as long as clocks run equally fast. The holder renews; another takes over once
// it has not seen the lease change for its whole duration, by its own clock.
//
// run() belongs to the client's io_context; holds() is for any thread.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "kube/client.h"

namespace sluice::kube {

struct LeaseSettings {
  std::string space, name;
  std::string identity;          // of this process, unique
  Nanos duration = Seconds(15);  // others wait so long
  Nanos deadline = Seconds(10);  // so long after its last renewal began, a holder holds nothing
  Nanos retry = Seconds(2);
};

class Lease {
 public:
  // `on_lost` is called once on the client's thread when this process held it and does no more,
  // also while the API server owes an answer.
  Lease(Client& client, LeaseSettings settings, const Clock& clock, std::function<void()> on_held,
        std::function<void()> on_lost);
  Lease(const Lease&) = delete;

  asio::awaitable<void> run();  // until release()
  // False from the deadline on, whatever the API server does.
  bool holds() const;
  // Gives it up, so that another need not wait. To be awaited before the process ends.
  asio::awaitable<void> release();

 private:
  asio::awaitable<void> watch_deadline();
  asio::awaitable<Result<void>> try_once();
  void note_loss();
  asio::awaitable<Result<void>> write(nlohmann::json lease, Time begun);
  nlohmann::json mine(nlohmann::json lease) const;
  bool has_expired(const nlohmann::json& lease);
  std::string path() const;

  Client& client_;
  const LeaseSettings settings_;
  const Clock& clock_;
  const std::function<void()> on_held_, on_lost_;
  std::atomic<int64_t> held_until_ = 0;  // ns of clock_; 0: not held
  bool was_held_ = false, released_ = false;
  std::string seen_version_;  // of another's lease …
  Time seen_{};               // … since when it is unchanged
};

}  // namespace sluice::kube
