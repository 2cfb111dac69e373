#include "node/fork_launcher.h"

#include <array>

#include "process/log_folder.h"
#include "wire/http/http.h"
#include "wire/permit_steps.h"

namespace sluice::node {

ForkLauncher::ForkLauncher(asio::io_context& io, ZygoteHost& zygote, Enforcer& enforcer,
                           const Ledger& ledger, DataPaths paths, Nanos ready_patience)
    : io_(io),
      zygote_(zygote),
      enforcer_(enforcer),
      ledger_(ledger),
      paths_(std::move(paths)),
      ready_patience_(ready_patience) {}

asio::awaitable<Result<Newborn>> ForkLauncher::bear(const InstanceRecord& r, size_t /*part*/) {
  const auto& birth = std::get<ForkOfTemplate>(r.birth);
  Result<Fd> listening = wire::listen_on({.path = r.socket});
  if (!listening.ok()) co_return listening.error();
  SLUICE_STEP("bear: listens");
  const Fd log = open_log(r.log);
  Result<SocketPair> control = make_socket_pair();
  if (!control.ok()) co_return control.error();

  wire::StartInstance what{.model_version = static_cast<uint32_t>(r.instance.revision),
                           .batch = static_cast<uint32_t>(r.instance.batch),
                           .max_delay_ns = static_cast<uint64_t>(birth.batching.max_delay.count()),
                           .max_batch = static_cast<uint32_t>(birth.batching.max_size)};
  wire::set_text(what.id, r.instance.id);
  wire::set_text(what.model_name, served_name(r.instance.function));
  const std::array fds{listening->get(), control->theirs.get(), log.get()};
  Result<Forked> born = co_await zygote_.fork_instance(birth.model, r.instance.batch, what, fds);
  if (!born.ok()) co_return born.error();
  SLUICE_STEP("bear: born");
  const auto process = identity_of(born->process.pid);
  if (!process)
    co_return Error{ErrorKind::kUnavailable,
                    "died before its first line: " + how_it_ended(born->process.pidfd.get())};
  co_return Newborn{*process, std::move(born->process.pidfd),
                    Channel(io_, std::move(control->ours)), born->uid};
}

Result<void> ForkLauncher::go(const Infant& infant) {
  SLUICE_ASSIGN(pages, enforcer_.attach(infant.record, infant.pidfd));
  SLUICE_STEP("go: has pages");
  wire::Go go{.threads = threads_of(infant.record.instance)};
  wire::set_text(go.permit_socket, paths_.permit_socket_of(infant.record.instance.id));
  const std::array fds{pages.pages.permit.get(), pages.pages.usage.get(), pages.bell.get()};
  return infant.control.send(go, fds);
}

asio::awaitable<Result<void>> ForkLauncher::wait_until_ready(const Infant& infant) {
  const Result<wire::Packet> packet = co_await infant.control.receive(ready_patience_);
  const Result<wire::Ready> ready = answer_as<wire::Ready>(packet);
  co_return ready.ok() ? Result<void>() : ready.error();
}

uint32_t ForkLauncher::threads_of(const Instance& i) const {
  return static_cast<uint32_t>(node::threads_of(*ledger_.find(i.device()), i.slice().sm));
}

}  // namespace sluice::node
