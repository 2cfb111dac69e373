// One GPU's MPS control daemon, looked after: started, or adopted where it outlived the node daemon
// before us; watched; started again when it dies; asked now and then how its server is, for whom
// MPS accepts nobody must not be sent there. It is a fault domain of its own: no other GPU's
// clients share its server. A server has clients of one user; which one is up to the caller.
//
// Belongs to one io_context with one thread, and must outlive its coroutines. When it is destroyed
// the control daemon goes on, as its clients do.
#pragma once

#include <functional>
#include <string>

#include "gpu/mps_program.h"

namespace sluice::node {

struct MpsPatience {
  Nanos answer = Seconds(10);          // for one answer
  Nanos end = Seconds(3);              // for its end, once it was asked to
  Nanos look_every = Seconds(10);      // while all is well
  Nanos shortest_pause = Millis(100);  // before it is looked at, or started, again; then doubled
  Nanos longest_pause = Seconds(30);
};

class MpsControl {
 public:
  // `user`: whose clients the server takes, until an adopted one's or serve() says otherwise.
  // `changed` is called whenever ready() or describe() may have.
  MpsControl(asio::io_context& io, const Clock& clock, MpsPlace place, uid_t user,
             std::function<void()> changed, const MpsPatience& patience = {});
  MpsControl(const MpsControl&) = delete;

  void start();

  // Whether a new client would be served.
  bool ready() const { return ready_; }
  const std::string& describe() const { return description_; }  // for people
  const MpsPlace& place() const { return place_; }

  // Replaces the server by one for that user's clients, once it has no others. A client that comes
  // meanwhile waits in its first call of the driver.
  void serve(uid_t user);
  uid_t user() const { return user_; }

  // Ends what the process has on the GPU, so that it can be killed without harm to others. Nothing
  // happens to one that is no client. An error: MPS could not do it.
  asio::awaitable<Result<void>> terminate(ProcessIdentity client);

  // The control daemon ends, unless it has clients: those need it until the next node daemon comes.
  asio::awaitable<void> quit();

 private:
  asio::awaitable<void> live();
  asio::awaitable<void> watch();
  asio::awaitable<bool> check();
  asio::awaitable<void> change_server();
  asio::awaitable<Result<void>> find_or_start();
  asio::awaitable<Result<pid_t>> server();
  asio::awaitable<Result<void>> look();
  asio::awaitable<Result<std::string>> ask(MpsCommand command);
  asio::awaitable<Result<std::vector<pid_t>>> pids(MpsCommand command);
  asio::awaitable<void> sleep(Nanos time);
  void say(bool ready, std::string description);

  asio::io_context& io_;
  const Clock& clock_;
  const MpsPlace place_;
  const std::function<void()> changed_;
  const MpsPatience patience_;
  uid_t user_;
  SpawnedProcess process_;  // pid 0: none
  bool quitting_ = false;
  bool ready_ = false;
  std::string description_ = "starts";
};

}  // namespace sluice::node
