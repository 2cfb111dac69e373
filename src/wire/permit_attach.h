/* How a process gets its pages: the state that it keeps, and the conversation with the daemon.
 *
 * All state of a process lies in private mappings that a fork wipes (MADV_WIPEONFORK). A child
 * finds zeros, takes the slow path at its first launch and attaches as a process of its own. Mapped
 * pages are never unmapped, and old descriptors are closed only after new ones have come, because
 * another thread may still read them. A restart of the daemon, or a fork, costs 12 KiB.
 *
 * Runs inside other people's programs: never exits, never throws, waits at most
 * SLUICE_ATTACH_WAIT_NS and only at the first launch, uses raw system calls where libc's are
 * cancellation points. Locks are tried, never waited for: their owner may have been killed. */
/* NOLINTBEGIN(modernize-use-nullptr): this is C */
#ifndef SLUICE_WIRE_PERMIT_ATTACH_H_
#define SLUICE_WIRE_PERMIT_ATTACH_H_

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* as in permit_page.h */
#endif
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "wire/permit_page.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define SLUICE_MS_NS 1000000ull
#define SLUICE_DEAD_NS (250 * SLUICE_MS_NS)    /* a heartbeat older than this: no daemon */
#define SLUICE_RETRY_NS (100 * SLUICE_MS_NS)   /* between attempts to attach */
#define SLUICE_ANSWER_NS (1000 * SLUICE_MS_NS) /* the daemon's time to answer a HELLO */
#define SLUICE_ATTACH_WAIT_NS \
  (100 * SLUICE_MS_NS)      /* a first launch waits this long for its pages */
#define SLUICE_FD_FLOOR 512 /* above the low numbers that programs reuse and close */
#define SLUICE_THREADS 1023

/* One pair of pages, and the process's state for them. */
struct sluice_attachment {
  const struct sluice_permit_page* permit;
  struct sluice_usage_page* usage;
  int bell, sock;
  uint32_t running; /* threads past the gate */
  uint32_t metered; /* as in the gate */

  /* The grant being spent: its clock's value when the grant was first seen, and the number of the
   * grant used up. */
  uint32_t base_seq, spent_seq;
  uint64_t base_ns;

  /* The daemon's heartbeat: the last one seen, when it changed by our clock, and how far our clock
   * is ahead of the daemon's (another time namespace). */
  uint64_t beat_ns, beat_seen_ns;
  int64_t skew_ns;
};

/* Gate state of one thread. The fast path touches only `left`, `seen` and `seq`: on a cache line of
 * its own, because other threads write theirs at every launch. */
struct __attribute__((aligned(64))) sluice_thread {
  int32_t left;  /* launches until the next checkpoint */
  uint32_t seen; /* it may go while *seq is this */
  const uint32_t* seq;
  struct sluice_attachment* at; /* where it counts in `want` and `running`; NULL: idle */
  uint64_t checked_ns;          /* its last checkpoint; 0: the time since then was not all work */
  uint64_t go_until_ns;         /* no check of the budget before */
  uint32_t batch;               /* launches between checkpoints */
  uint32_t running;
  uint32_t owner; /* its tid; 0: free */
  uint32_t units; /* passed, and not yet reported */
};

/* At the request without a daemon: refilled per window; overrun stays as debt. */
struct sluice_refill {
  uint32_t lock, started;
  int64_t left_ns;
  uint64_t spent_ns, window_end_ns;
  uint64_t beat_ns; /* the daemon's last heartbeat: a new one restarts the count */
};

struct sluice_process {
  struct sluice_attachment* current;
  uint32_t lock;   /* of the conversation below */
  uint32_t waited; /* the first launch has waited */
  int sock;
  uint32_t talking;  /* HELLO is sent */
  uint64_t next_ns;  /* until then the answer is due; else: the time of the next attempt */
  uint32_t open_seq; /* read by threads while there is nothing to enforce */
  uint32_t refusal;  /* the last REFUSED's reason */
  struct sluice_refill refill;
  struct sluice_thread threads[SLUICE_THREADS];
};

/* One per process and device, in static storage, zeros but for the first two. Survives a fork:
 * holds only what the child may also know. */
struct sluice_gate {
  const char* socket_path;
  uint32_t device; /* which of the slice's devices, from 0 */
  struct sluice_process* process;
  uint32_t request, millicores; /* as last seen on a page; 0: never attached */
  uint64_t window_ns;
  uint32_t metered; /* of a GPU: the gate's caller writes what it submits to the usage page */
};

static inline uint64_t sluice_clock(clockid_t id) {
  struct timespec t;
  clock_gettime(id, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline int sluice_try_lock(uint32_t* lock) {
  return __atomic_exchange_n(lock, 1u, __ATOMIC_ACQUIRE) == 0;
}
static inline void sluice_unlock(uint32_t* lock) {
  __atomic_store_n(lock, 0u, __ATOMIC_RELEASE);
}

/* Returns memory of zeros, zeroed again in every child. NULL on a kernel that
 * cannot promise that. */
static inline void* sluice_wiped_memory(size_t size) {
  void* p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return NULL;
  if (madvise(p, size, MADV_WIPEONFORK) == 0) return p;
  munmap(p, size);
  return NULL;
}

static inline struct sluice_process* sluice_process_of(struct sluice_gate* g) {
  struct sluice_process* p = __atomic_load_n(&g->process, __ATOMIC_ACQUIRE);
  struct sluice_process* none = NULL;
  if (p != NULL) return p;
  p = (struct sluice_process*)sluice_wiped_memory(sizeof *p);
  if (p == NULL) return NULL;
  if (__atomic_compare_exchange_n(&g->process, &none, p, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    return p;
  munmap(p, sizeof *p);
  return none;
}

static inline void* sluice_map(int fd, int prot, uint64_t magic) {
  void* p;
  /* Not fstat: its name's version would keep the library from loading with an older glibc. */
  if (lseek(fd, 0, SEEK_END) < (off_t)SLUICE_PAGE_SIZE) return NULL;
  p = mmap(NULL, SLUICE_PAGE_SIZE, prot, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) return NULL;
  if (sluice_header_ok((const struct sluice_page_header*)p, magic)) return p;
  munmap(p, SLUICE_PAGE_SIZE);
  return NULL;
}

static inline int sluice_high_fd(int fd) {
  const int high = fcntl(fd, F_DUPFD_CLOEXEC, SLUICE_FD_FLOOR);
  if (high < 0) return fd; /* a small descriptor table: keep the present number */
  close(fd);
  return high;
}

/* Keeps the figures that a gate without daemon, and a forked child, go by. */
static inline void sluice_remember(struct sluice_gate* g, const struct sluice_permit_page* p) {
  __atomic_store_n(&g->request, __atomic_load_n(&p->request, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
  __atomic_store_n(&g->millicores, __atomic_load_n(&p->millicores, __ATOMIC_RELAXED),
                   __ATOMIC_RELAXED);
  __atomic_store_n(&g->window_ns, __atomic_load_n(&p->window_ns, __ATOMIC_RELAXED),
                   __ATOMIC_RELAXED);
}

/* Maps a pair of pages and makes them the process's. On success fds = {permit, usage, bell} and
 * `sock` become ours. */
static inline int sluice_attach_pages(struct sluice_gate* g, struct sluice_process* p,
                                      const int fds[3], int sock) {
  struct sluice_attachment* old = __atomic_load_n(&p->current, __ATOMIC_ACQUIRE);
  struct sluice_attachment* at =
      (struct sluice_attachment*)sluice_wiped_memory(sizeof(struct sluice_attachment));
  void *permit, *usage;
  if (at == NULL) return 0;
  SLUICE_STEP("attach: answered");
  permit = sluice_map(fds[0], PROT_READ, SLUICE_PERMIT_MAGIC);
  usage = sluice_map(fds[1], PROT_READ | PROT_WRITE, SLUICE_USAGE_MAGIC);
  if (permit == NULL || usage == NULL) {
    if (permit != NULL) munmap(permit, SLUICE_PAGE_SIZE);
    if (usage != NULL) munmap(usage, SLUICE_PAGE_SIZE);
    munmap(at, sizeof *at);
    return 0;
  }
  at->permit = (const struct sluice_permit_page*)permit;
  at->usage = (struct sluice_usage_page*)usage;
  at->metered = g->metered;
  at->bell = sluice_high_fd(fds[2]);
  at->sock = sock;
  close(fds[0]);
  close(fds[1]);
  sluice_remember(g, at->permit);
  SLUICE_STEP("attach: mapped");
  __atomic_store_n(&p->current, at, __ATOMIC_RELEASE);
  SLUICE_STEP("attach: attached");
  if (old != NULL) {
    close(old->bell);
    close(old->sock);
  }
  return 1;
}

/* Returns a connection to the daemon with the first message sent; -1 if there is none. */
static inline int sluice_call_daemon(const char* path, const void* hello, size_t size) {
  struct sockaddr_un to;
  const size_t length = path != NULL ? strlen(path) : 0;
  int sock;
  memset(&to, 0, sizeof to);
  to.sun_family = AF_UNIX;
  if (length == 0 || length >= sizeof to.sun_path) return -1;
  memcpy(to.sun_path, path, length);
  sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (sock < 0) return -1;
  sock = sluice_high_fd(sock);
  if (syscall(SYS_connect, sock, &to, sizeof to) == 0 &&
      syscall(SYS_sendto, sock, hello, size, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0) == (long)size)
    return sock;
  close(sock);
  return -1;
}

static inline int sluice_say_hello(const struct sluice_gate* g) {
  struct sluice_hello hello;
  memset(&hello, 0, sizeof hello);
  hello.head.magic = SLUICE_HELLO_MAGIC;
  hello.head.version = SLUICE_WIRE_VERSION;
  hello.head.type = SLUICE_HELLO;
  hello.device = g->device;
  return sluice_call_daemon(g->socket_path, &hello, sizeof hello);
}

/* Receives one message and up to three descriptors (missing ones are -1, the kernel closes others).
 * Returns its size, or recvmsg's error. */
static inline long sluice_receive(int sock, void* buffer, size_t size, int fds[3]) {
  union {
    char bytes[CMSG_SPACE(3 * sizeof(int))];
    struct cmsghdr align;
  } control;
  struct iovec data;
  struct msghdr m;
  struct cmsghdr* c;
  long n;
  fds[0] = fds[1] = fds[2] = -1;
  data.iov_base = buffer;
  data.iov_len = size;
  memset(&m, 0, sizeof m);
  m.msg_iov = &data;
  m.msg_iovlen = 1;
  m.msg_control = control.bytes;
  m.msg_controllen = CMSG_LEN(3 * sizeof(int)); /* aligned, a fourth would fit */
  n = syscall(SYS_recvmsg, sock, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < 0) return n;
  c = CMSG_FIRSTHDR(&m);
  if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
    memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
  return n;
}

static inline void sluice_hear_answer(struct sluice_gate* g, struct sluice_process* p,
                                      uint64_t now) {
  union {
    struct sluice_message head;
    struct sluice_welcome welcome;
    struct sluice_refused refused;
  } answer;
  int fds[3], i;
  const long n = sluice_receive(p->sock, &answer, sizeof answer, fds);
  if (n < 0 && (errno == EAGAIN || errno == EINTR) && now < p->next_ns) return;
  p->talking = 0;
  p->next_ns = now + SLUICE_RETRY_NS;
  if (n == (long)sizeof answer.welcome && answer.head.type == SLUICE_WELCOME &&
      sluice_attach_pages(g, p, fds, p->sock)) {
    __atomic_store_n(&p->refusal, 0u, __ATOMIC_RELAXED);
    return;
  }
  if (n == (long)sizeof answer.refused && answer.head.type == SLUICE_REFUSED) {
    __atomic_store_n(&p->refusal, answer.refused.reason, __ATOMIC_RELAXED);
    p->next_ns = now + (uint64_t)answer.refused.retry_ms * SLUICE_MS_NS;
    if (p->next_ns < now + SLUICE_RETRY_NS) p->next_ns = now + SLUICE_RETRY_NS;
  }
  for (i = 0; i < 3; ++i)
    if (fds[i] >= 0) close(fds[i]);
  close(p->sock);
}

/* One step of the conversation, without blocking; most calls find nothing due and return at once.
 * Returns whether an answer is still expected. */
static inline int sluice_attach_step(struct sluice_gate* g, struct sluice_process* p,
                                     uint64_t now) {
  int talking;
  if (!sluice_try_lock(&p->lock)) return 1;
  if (p->talking) {
    sluice_hear_answer(g, p, now);
  } else if (now >= p->next_ns) {
    p->sock = sluice_say_hello(g);
    SLUICE_STEP("attach: asked");
    p->talking = p->sock >= 0;
    p->next_ns = now + (p->talking ? SLUICE_ANSWER_NS : SLUICE_RETRY_NS);
  }
  talking = (int)p->talking;
  sluice_unlock(&p->lock);
  return talking;
}

/* The first launch of a process waits for its pages, for a bounded time; later ones never do. */
static inline void sluice_attach_first(struct sluice_gate* g, struct sluice_process* p) {
  const uint64_t start = sluice_clock(CLOCK_MONOTONIC);
  uint64_t now = start;
  struct timespec nap = {0, 100000};
  while (now - start < SLUICE_ATTACH_WAIT_NS && sluice_attach_step(g, p, now)) {
    syscall(SYS_nanosleep, &nap, NULL);
    now = sluice_clock(CLOCK_MONOTONIC);
    /* Many waiting processes must not keep the daemon from the processor. */
    if (nap.tv_nsec < 3000000) nap.tv_nsec *= 2;
  }
  __atomic_store_n(&p->waited, 1u, __ATOMIC_RELEASE);
}

#endif /* SLUICE_WIRE_PERMIT_ATTACH_H_ */
/* NOLINTEND(modernize-use-nullptr) */
