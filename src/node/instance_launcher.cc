#include "node/instance_launcher.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "node/log_folder.h"
#include "wire/http.h"
#include "wire/permit_steps.h"

namespace sluice::node {

Result<uid_t> UidPool::take() {
  for (uid_t tried = 0; tried < count_; ++tried) {
    const uid_t uid = first_ + next_;
    next_ = (next_ + 1) % count_;
    if (taken_.insert(uid).second) return uid;
  }
  return Error{ErrorKind::kExhausted,
               "all " + std::to_string(count_) + " uids of instances are taken"};
}

InstanceLauncher::InstanceLauncher(asio::io_context& io, ZygoteHost& zygote, DataPaths paths)
    : io_(io), zygote_(zygote), paths_(std::move(paths)) {}

asio::awaitable<Result<Birth>> InstanceLauncher::bear(const InstanceRecord& r) {
  Result<Fd> listening = wire::listen_on({.path = r.socket});
  if (!listening.ok()) co_return listening.error();
  SLUICE_STEP("bear: listens");
  const Fd log = open_log(r.log);
  Result<SocketPair> control = make_socket_pair();
  if (!control.ok()) co_return control.error();

  wire::StartInstance what{.model_version = static_cast<uint32_t>(r.instance.revision),
                           .batch = static_cast<uint32_t>(r.instance.batch),
                           .max_delay_ns = static_cast<uint64_t>(r.batching.max_delay.count()),
                           .uid = r.uid,
                           .gid = r.uid,
                           .max_batch = static_cast<uint32_t>(r.batching.max_size)};
  wire::set_text(what.id, r.instance.id);
  wire::set_text(what.model_name, served_name(r.instance.function));
  const std::array fds{listening->get(), control->theirs.get(), log.get()};
  Result<Newborn> born = co_await zygote_.fork_instance(r.model, r.instance.batch, what, fds);
  if (!born.ok()) co_return born.error();
  SLUICE_STEP("bear: born");
  const auto process = identity_of(born->pid);
  if (!process)
    co_return Error{ErrorKind::kUnavailable,
                    "died before its first line: " + how_it_ended(born->pidfd.get())};
  co_return Birth{*process, std::move(born->pidfd), Channel(io_, std::move(control->ours))};
}

Result<void> check_id(const InstanceId& id, const DataPaths& paths) {
  const size_t longest =
      std::min(sizeof(wire::StartInstance::id),
               sizeof(sockaddr_un::sun_path) -
                   std::min(sizeof(sockaddr_un::sun_path), paths.socket_of("").size())) -
      1;
  const auto allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  };
  if (id.empty() || id.front() == '.' || id.front() == '-' || !std::ranges::all_of(id, allowed))
    return Error{ErrorKind::kInvalid,
                 "id: '" + id + "' is not a name of letters, digits, '-', '_' and '.'"};
  if (id.size() > longest)
    return Error{ErrorKind::kInvalid, "id: '" + id + "' is longer than " + std::to_string(longest) +
                                          " characters (a socket is called so)"};
  return {};
}

std::string last_lines(const std::string& path, size_t bytes) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return "";
  struct stat s {};
  fstat(fd.get(), &s);
  const auto size = static_cast<size_t>(std::max<off_t>(s.st_size, 0));
  std::string text(std::min(size, bytes), 0);
  const ssize_t n =
      pread(fd.get(), text.data(), text.size(), static_cast<off_t>(size - text.size()));
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  if (text.size() < size) text.erase(0, text.find('\n') + 1);  // begins in the middle of a line
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace sluice::node
