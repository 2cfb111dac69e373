// Warm templates: processes that have loaded what their instances begin with, so that an instance
// is a fork. They are made when they are first needed; the most recently used ones are kept. A
// template and its instances have one uid, of the pool, so that no process of one template can
// change to another. What a template says of a fork counts as far as the kernel confirms it.
//
// Belongs to one io_context with one thread, and must outlive its coroutines.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "node/uid_pool.h"
#include "process/channel.h"
#include "process/spawn.h"

namespace sluice::node {

// One of them; it ends with its owner, its instances do not.
struct Template {
  Template(asio::io_context& io, UidPool* pool, std::string its_key);
  Template(const Template&) = delete;
  ~Template();

  // One that loads for ever does not notice that its channel closes.
  void kill() const;
  // Kills it, and forgets the process.
  void end();
  // Takes a uid of the pool, if there is one and it has none yet.
  Result<void> take_uid();

  const std::string key;
  pid_t pid = 0;
  Fd pidfd;       // invalid: not started yet
  uid_t uid = 0;  // its instances', too; 0: the daemon's
  Channel channel;
  uint64_t last_use = 0;
  asio::steady_timer loaded;  // cancelled when `outcome` is known
  std::optional<Result<void>> outcome;

 private:
  UidPool* const uids_;
  uid_t taken_ = 0;
};

struct Forked {
  SpawnedProcess process;
  uid_t uid = 0;  // its template's; 0: the daemon's
};

class Templates {
 public:
  // Starts the template's process and waits until it is warm; ends an earlier process of it first.
  // A failure after the process was started is the content's, unless it is kUnavailable and the
  // first: the process may have been killed.
  using Load = std::function<asio::awaitable<Result<void>>(std::shared_ptr<Template>)>;
  // Asks the template for a fork.
  using Ask = std::function<Result<void>(Channel&)>;

  // `uids`: nullptr without root. It outlives this.
  Templates(asio::io_context& io, UidPool* uids, size_t most, Nanos answer_patience);

  // Forks an instance from the template of that key, which is loaded first if there is none. The
  // instance waits for Go on its control socket. Returns kInvalid if the content cannot be loaded;
  // other kinds mean that the template or the machine failed.
  asio::awaitable<Result<Forked>> fork_instance(std::string key, Load load, Ask ask);

  size_t size() const { return templates_.size(); }

 private:
  asio::awaitable<Result<std::shared_ptr<Template>>> find(const std::string& key, const Load& load);
  asio::awaitable<Result<Forked>> fork_from(std::shared_ptr<Template> t, const Ask& ask);
  void forget(const std::shared_ptr<Template>&);
  void make_room();

  asio::io_context& io_;
  UidPool* const uids_;
  const size_t most_;
  const Nanos answer_patience_;
  std::map<std::string, std::shared_ptr<Template>> templates_;  // by key
  uint64_t uses_ = 0;
};

}  // namespace sluice::node
