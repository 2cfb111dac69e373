#include "tests/support/permit_daemon.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>

namespace sluice::hook {
namespace {

void* map_page(int fd, uint64_t magic) {
  const sluice_page_header header{magic, SLUICE_WIRE_VERSION, SLUICE_PAGE_SIZE, 1, 0};
  if (ftruncate(fd, SLUICE_PAGE_SIZE) != 0) abort();
  void* page = mmap(nullptr, SLUICE_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  memcpy(page, &header, sizeof header);
  return page;
}

}  // namespace

PermitDaemon::PermitDaemon(const std::string& path)
    : path_(path),
      listener_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)),
      bell_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      permit_fd_(memfd_create("permit", MFD_CLOEXEC)),
      usage_fd_(memfd_create("usage", MFD_CLOEXEC)),
      permit_(static_cast<sluice_permit_page*>(map_page(permit_fd_, SLUICE_PERMIT_MAGIC))),
      usage_(static_cast<sluice_usage_page*>(map_page(usage_fd_, SLUICE_USAGE_MAGIC))) {
  permit_->seq = 1;
  permit_->window_ns = 100 * SLUICE_MS_NS;
  sockaddr_un at{.sun_family = AF_UNIX};
  path.copy(at.sun_path, sizeof at.sun_path - 1);
  if (bind(listener_, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 ||
      listen(listener_, 16) != 0)
    abort();
  thread_ = std::thread([this] { serve(); });
}

PermitDaemon::~PermitDaemon() {
  ending_ = true;
  thread_.join();
  unlink(path_.c_str());
}

void PermitDaemon::grant(uint64_t budget_ns) {
  const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
  const uint64_t submitted = __atomic_load_n(&usage_->submitted_ns, __ATOMIC_RELAXED);
  sluice_permit_allow(permit_, submitted + budget_ns, kInFlightNs, now + kHour, now);
  sluice_permit_wake(permit_, usage_);
}

void PermitDaemon::revoke() {
  longest_pause_ns_ = 0;
  sluice_permit_revoke(permit_);
}

void PermitDaemon::become(uint32_t version) {
  for (sluice_page_header* header : {&permit_->header, &usage_->header})
    __atomic_store_n(&header->version, version, __ATOMIC_RELEASE);
}

bool PermitDaemon::heart_paused() const {
  const uint64_t pause = sluice_clock(CLOCK_MONOTONIC) - beat_ns_;
  return std::max<uint64_t>(pause, longest_pause_ns_) > SLUICE_DEAD_NS / 2;
}

// A client's connection stays open as long as the daemon; a test has few.
void PermitDaemon::serve() {
  while (!ending_) {
    const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
    __atomic_store_n(&permit_->heartbeat_ns, now, __ATOMIC_RELAXED);
    const sluice_time_alone alone{0, now};
    sluice_say_alone(permit_, &alone);
    const uint64_t before = beat_ns_.exchange(now);
    longest_pause_ns_ = std::max<uint64_t>(longest_pause_ns_, before != 0 ? now - before : 0);
    pollfd waiting{listener_, POLLIN, 0};
    if (poll(&waiting, 1, 5) == 1) answer(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
  }
}

void PermitDaemon::answer(int client) {
  sluice_hello hello{};
  if (recv(client, &hello, sizeof hello, 0) != sizeof hello) return;  // it waited too long
  if (hello.device >= std::size(hellos_)) abort();
  ++hellos_[hello.device];
  if (refusal_ == 0) return welcome(client);
  sluice_refused refused{};
  refused.head = {SLUICE_HELLO_MAGIC, SLUICE_WIRE_VERSION - 1, SLUICE_REFUSED};
  refused.reason = refusal_;
  send(client, &refused, sizeof refused, MSG_NOSIGNAL);  // the client may be gone
}

void PermitDaemon::welcome(int client) {
  sluice_welcome answer{{SLUICE_HELLO_MAGIC, SLUICE_WIRE_VERSION, SLUICE_WELCOME}, 1, 0};
  const int fds[3] = {permit_fd_, usage_fd_, bell_};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fds)] = {};
  iovec data{&answer, sizeof answer};
  msghdr message{
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof fds);
  memcpy(CMSG_DATA(head), fds, sizeof fds);
  sendmsg(client, &message, MSG_NOSIGNAL);  // the client may be gone
}

}  // namespace sluice::hook
