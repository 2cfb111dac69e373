// A process that holds a slice, for tests across processes: forked, handed its pages by a host as
// the daemon hands them to an instance, led by words over a socket. The test can read its pages
// too. For tests only.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <functional>

#include "enforce/arbiter_host.h"
#include "wire/packet.h"
#include "wire/permit.h"

namespace sluice {

class ClientProcess {
 public:
  // The child's state: its attached gate, and the socket on which it receives words.
  struct Self {
    sluice_gate gate{};
    sluice_thread* thread = nullptr;
    int control = -1;

    void pass() { sluice_gate_pass(&gate, &thread); }
    void rest() { sluice_gate_idle_begin(thread); }
    // Returns the next word; the process ends with the test.
    uint64_t hear() const {
      const auto packet = wire::receive_packet(control);
      uint64_t word = 0;
      if (!packet.ok() || packet->bytes.size() != sizeof word) _exit(0);
      memcpy(&word, packet->bytes.data(), sizeof word);
      return word;
    }
  };

  // The child runs `life` once it has its pages, and ends when that returns.
  ClientProcess(node::ArbiterHost& host, node::ClientRef client,
                const std::function<void(Self&)>& life) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(ends[0]);
      Self self{.control = ends[1]};
      auto packet = wire::receive_packet(ends[1]);
      if (!packet.ok() || packet->fds.size() != 3) _exit(1);
      const int fds[3] = {packet->fds[0].release(), packet->fds[1].release(),
                          packet->fds[2].release()};
      if (!sluice_attach_pages(&self.gate, sluice_process_of(&self.gate), fds, -1)) _exit(1);
      life(self);
      _exit(0);
    }
    close(ends[1]);
    control_.reset(ends[0]);
    const auto identity = *node::identity_of(pid_);
    auto pages = host.attach(client, identity, *node::open_process(identity));
    EXPECT_TRUE(pages.ok()) << pages.error().message;
    permit_ = static_cast<const sluice_permit_page*>(map(pages->pages.permit, PROT_READ));
    usage_ = static_cast<sluice_usage_page*>(map(pages->pages.usage, PROT_READ | PROT_WRITE));
    const std::array fds{pages->pages.permit.get(), pages->pages.usage.get(), pages->bell.get()};
    EXPECT_TRUE(wire::send_packet(control_.get(), std::array{std::byte{0}}, fds).ok());
  }
  ~ClientProcess() {
    if (pid_ > 0) end();
    munmap(const_cast<sluice_permit_page*>(permit_), SLUICE_PAGE_SIZE);
    munmap(usage_, SLUICE_PAGE_SIZE);
  }
  ClientProcess(const ClientProcess&) = delete;

  void tell(uint64_t word) {
    EXPECT_TRUE(wire::send_packet(control_.get(), std::as_bytes(std::span(&word, 1))).ok());
  }
  void end() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

  bool waits() const { return __atomic_load_n(&usage_->waiting, __ATOMIC_SEQ_CST) != 0; }
  bool granted() const { return sluice_seq(permit_) % 2 == 0; }
  Nanos budget() const { return Nanos(__atomic_load_n(&permit_->budget_ns, __ATOMIC_RELAXED)); }

 private:
  static void* map(const Fd& fd, int protection) {
    void* page = mmap(nullptr, SLUICE_PAGE_SIZE, protection, MAP_SHARED, fd.get(), 0);
    EXPECT_NE(page, MAP_FAILED);
    return page;
  }

  pid_t pid_ = 0;
  Fd control_;
  const sluice_permit_page* permit_ = nullptr;
  sluice_usage_page* usage_ = nullptr;
};

}  // namespace sluice
