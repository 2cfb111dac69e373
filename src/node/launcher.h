// The ways to start an instance, behind one interface with one implementation per birth
// (model/birth.h). A newborn process does nothing of its own before go(): by then it is in its
// cgroup, so nothing runs unenforced.
//
// Belongs to the daemon's loop, and must outlive its coroutines.
#pragma once

#include "node/registry.h"
#include "process/channel.h"
#include "process/process_identity.h"

namespace sluice::node {

struct Newborn {
  ProcessIdentity process;
  Fd pidfd;
  Channel control;
  uid_t uid = 0;  // of a fork: its template's; 0: the record's
};

// A newborn that is now followed.
struct Infant {
  const InstanceRecord& record;
  int pidfd;
  Channel& control;
};

class Launcher {
 public:
  virtual ~Launcher() = default;

  // Starts the first process of a part. Returns kInvalid if the record asks for the impossible;
  // other kinds mean that the node failed. A newborn whose channel closes before go() ends.
  virtual asio::awaitable<Result<Newborn>> bear(const InstanceRecord& r, size_t part) = 0;
  // Lets it run.
  virtual Result<void> go(const Infant& infant) = 0;
  // Returns when the first part, which serves, is ready. Returns kUnavailable if its process has
  // ended.
  virtual asio::awaitable<Result<void>> wait_until_ready(const Infant& infant) = 0;
};

}  // namespace sluice::node
