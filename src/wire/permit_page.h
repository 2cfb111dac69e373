/* The pages and socket messages between the node daemon and its clients (docs/design/permits.md):
 * layout, and the two halves of every ordering between them, side by side.
 *
 * Little-endian, append-only, every offset asserted. The daemon owns both pages. The client may
 * write only the usage page, and the daemon checks everything that stands there. C11 and C++20, gcc
 * or clang, libc only; everything is safe to call from any thread. */
/* NOLINTBEGIN(modernize-use-nullptr): this is C */
#ifndef SLUICE_WIRE_PERMIT_PAGE_H_
#define SLUICE_WIRE_PERMIT_PAGE_H_

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* syscall(), MAP_ANONYMOUS; include this header first */
#endif
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "wire/layout.h"
#include "wire/permit_steps.h"

#define SLUICE_PERMIT_MAGIC 0x4d50454349554c53ull /* "SLUICEPM" */
#define SLUICE_USAGE_MAGIC 0x5355454349554c53ull  /* "SLUICEUS" */
#define SLUICE_HELLO_MAGIC 0x4948454349554c53ull  /* "SLUICEHI" */

/* A daemon serves SLUICE_WIRE_VERSION and the version before it. A page has its client's version.
 * In version 1 a GPU's grant was busy time from the moment at which it was seen. */
#define SLUICE_WIRE_VERSION 2u
#define SLUICE_WIRE_VERSION_MIN 1u
#define SLUICE_PAGE_SIZE 4096u

/* permit.flags */
#define SLUICE_CONTENDED 1u /* another client wants the device: ring the doorbell when idle */
#define SLUICE_CLOSED 2u    /* this page is no longer served: attach again */
#define SLUICE_BESIDE 4u    /* another client has work on the same SMs of a GPU */

#define SLUICE_PARKED (1ull << 62) /* far in the future, and safe to add to */

struct sluice_page_header {
  uint64_t magic;
  uint32_t version;
  uint32_t size;       /* of the page, in bytes */
  uint32_t generation; /* the daemon's incarnation */
  uint32_t features;   /* bits that a newer side may use; unknown ones are ignored */
};

struct sluice_permit_page {
  struct sluice_page_header header;
  uint8_t reserved0[40];
  /* The grant, on a cache line of its own. */
  uint32_t seq; /* even: granted; odd: not. The futex word. */
  uint32_t flags;
  uint64_t valid_until_ns; /* the daemon's CLOCK_MONOTONIC; SLUICE_PARKED: no deadline */
  uint64_t budget_ns;      /* busy time that may be spent under this grant; not on a GPU */
  uint64_t now_ns;         /* when the grant was written */
  /* On a GPU: a client may submit until usage.submitted_ns reaches the first, with at most the
   * second in flight. Totals, so that a renewal and what is submitted meanwhile do not race. */
  uint64_t allowed_ns;
  uint64_t in_flight_ns;
  /* On a GPU: the client's SMs were its own between these two times, by the daemon's clock. */
  uint64_t alone_since_ns; /* SLUICE_PARKED: another client has work */
  uint64_t alone_until_ns;
  /* The slice's quota, and the daemon's heartbeat. */
  uint64_t heartbeat_ns;
  uint64_t window_ns;
  uint32_t sm; /* permille, like the next two */
  uint32_t request;
  uint32_t limit;
  uint32_t millicores;      /* of the client's sm; 0 where the device is not a CPU */
  uint64_t slo_ns;          /* of an iteration: the arbiter uses them (permit_hints.h); else 0 */
  uint64_t unused_sm_range; /* 0; daemons once named the slice's SMs here */
  uint8_t reserved2[3920];
};

struct sluice_usage_page {
  struct sluice_page_header header;
  uint8_t reserved0[40];
  uint32_t waiting; /* threads blocked in the slow path */
  uint32_t want;    /* threads that have work; 0: the process is idle */
  uint32_t ack_seq; /* odd: seq | 1 of the last grant, no thread runs under it; even: one does */
  uint8_t reserved1[52];
  uint64_t busy_ns; /* cumulative, as are the next; for people only */
  uint64_t units;
  uint64_t longest_ns;
  uint8_t reserved2[40];
  /* The client's meter of a GPU, on a cache line of its own; all zeros without one. A client of
   * version 1 writes the first four, one of version 2 all but the first and the third. */
  uint64_t device_busy_ns;      /* the device's work for it, merged over streams; cumulative */
  uint64_t device_seen_ns;      /* when the others were written, by the daemon's clock */
  uint64_t device_in_flight_ns; /* expected of work submitted and not seen finished */
  uint64_t device_longest_ns;   /* the longest single unit seen: kernel, graph, copy or set */
  /* Cumulative, in the time that each unit is expected to take alone. */
  uint64_t submitted_ns;
  uint64_t finished_ns;
  uint64_t host_ns;  /* the program's own time between launches, without waits */
  uint32_t stalled;  /* threads that wait since as much is in flight as may be */
  uint32_t awaiting; /* threads that wait until something that they submitted has run */
  /* Hints for arbiters (wire/permit_hints.h), optional; zeros say nothing. */
  uint64_t due_ns;     /* of the oldest waiting request, by the daemon's clock; 0: none waits */
  uint64_t cycle_ns;   /* how long the last iteration took */
  uint32_t iterations; /* ended iterations, modulo 2^32; stored after the words beside it */
  uint32_t kind;       /* of the last iteration: cycles are comparable within one kind */
  uint64_t begun_ns;   /* when the open iteration began, by the daemon's clock; 0: none is open */
  uint64_t begun_submitted_ns; /* submitted_ns then */
  uint8_t reserved4[24];
  uint32_t unused_sm_refusal; /* not read; hooks once reported a driver's error here */
  uint8_t reserved5[3772];
};

SLUICE_AT(sluice_page_header, magic, 0);
SLUICE_AT(sluice_page_header, version, 8);
SLUICE_AT(sluice_page_header, size, 12);
SLUICE_AT(sluice_page_header, generation, 16);
SLUICE_AT(sluice_page_header, features, 20);
SLUICE_AT(sluice_permit_page, header, 0);
SLUICE_AT(sluice_permit_page, seq, 64);
SLUICE_AT(sluice_permit_page, flags, 68);
SLUICE_AT(sluice_permit_page, valid_until_ns, 72);
SLUICE_AT(sluice_permit_page, budget_ns, 80);
SLUICE_AT(sluice_permit_page, now_ns, 88);
SLUICE_AT(sluice_permit_page, allowed_ns, 96);
SLUICE_AT(sluice_permit_page, in_flight_ns, 104);
SLUICE_AT(sluice_permit_page, alone_since_ns, 112);
SLUICE_AT(sluice_permit_page, alone_until_ns, 120);
SLUICE_AT(sluice_permit_page, heartbeat_ns, 128);
SLUICE_AT(sluice_permit_page, window_ns, 136);
SLUICE_AT(sluice_permit_page, sm, 144);
SLUICE_AT(sluice_permit_page, request, 148);
SLUICE_AT(sluice_permit_page, limit, 152);
SLUICE_AT(sluice_permit_page, millicores, 156);
SLUICE_AT(sluice_permit_page, slo_ns, 160);
SLUICE_AT(sluice_permit_page, unused_sm_range, 168);
SLUICE_AT(sluice_usage_page, header, 0);
SLUICE_AT(sluice_usage_page, waiting, 64);
SLUICE_AT(sluice_usage_page, want, 68);
SLUICE_AT(sluice_usage_page, ack_seq, 72);
SLUICE_AT(sluice_usage_page, busy_ns, 128);
SLUICE_AT(sluice_usage_page, units, 136);
SLUICE_AT(sluice_usage_page, longest_ns, 144);
SLUICE_AT(sluice_usage_page, device_busy_ns, 192);
SLUICE_AT(sluice_usage_page, device_seen_ns, 200);
SLUICE_AT(sluice_usage_page, device_in_flight_ns, 208);
SLUICE_AT(sluice_usage_page, device_longest_ns, 216);
SLUICE_AT(sluice_usage_page, submitted_ns, 224);
SLUICE_AT(sluice_usage_page, finished_ns, 232);
SLUICE_AT(sluice_usage_page, host_ns, 240);
SLUICE_AT(sluice_usage_page, stalled, 248);
SLUICE_AT(sluice_usage_page, awaiting, 252);
SLUICE_AT(sluice_usage_page, due_ns, 256);
SLUICE_AT(sluice_usage_page, cycle_ns, 264);
SLUICE_AT(sluice_usage_page, iterations, 272);
SLUICE_AT(sluice_usage_page, kind, 276);
SLUICE_AT(sluice_usage_page, begun_ns, 280);
SLUICE_AT(sluice_usage_page, begun_submitted_ns, 288);
SLUICE_AT(sluice_usage_page, unused_sm_refusal, 320);
SLUICE_STATIC_ASSERT(sizeof(struct sluice_permit_page) == SLUICE_PAGE_SIZE, "permit page");
SLUICE_STATIC_ASSERT(sizeof(struct sluice_usage_page) == SLUICE_PAGE_SIZE, "usage page");

/* Socket messages, one per SEQPACKET datagram: HELLO from the client; WELCOME with the descriptors
 * permit, usage, bell in this order, or REFUSED, from the daemon. The kernel identifies the client;
 * HELLO only names which of its devices it means. */
enum sluice_message_type {
  SLUICE_HELLO = 1,
  SLUICE_WELCOME = 2,
  SLUICE_REFUSED = 3,
  SLUICE_MEMORY_HELLO = 4, /* this and the next: permit_memory.h */
  SLUICE_MEMORY_WELCOME = 5,
  SLUICE_HOLD = 6,
  SLUICE_HELD = 7,
  SLUICE_MEMORY_LOOK = 8,
  SLUICE_MEMORY_SEEN = 9,
};

enum sluice_refusal {
  SLUICE_REFUSED_MALFORMED = 1, /* not a message of ours */
  SLUICE_REFUSED_VERSION = 2,   /* this daemon serves other versions */
  SLUICE_REFUSED_UNKNOWN = 3,   /* the process holds no slice here */
  SLUICE_REFUSED_IDENTITY = 4,  /* the kernel does not identify it, or it has died */
  SLUICE_REFUSED_DEVICE = 5,    /* it holds no such device */
  SLUICE_REFUSED_BUSY = 6,      /* too many processes; may work later */
};

struct sluice_message {
  uint64_t magic;
  uint32_t version; /* HELLO: the client's; answers: that of the pages */
  uint32_t type;
};

struct sluice_hello {
  struct sluice_message head;
  uint32_t device; /* which of the slice's devices, from 0 */
  uint32_t features;
};

struct sluice_welcome {
  struct sluice_message head;
  uint32_t generation;
  uint32_t features;
};

struct sluice_refused {
  struct sluice_message head;
  uint32_t reason;
  uint32_t retry_ms; /* ask again no sooner than after this long */
  char text[104];    /* for people, ends in a zero byte */
};
SLUICE_AT(sluice_message, version, 8);
SLUICE_AT(sluice_message, type, 12);
SLUICE_AT(sluice_hello, device, 16);
SLUICE_AT(sluice_hello, features, 20);
SLUICE_AT(sluice_welcome, generation, 16);
SLUICE_AT(sluice_welcome, features, 20);
SLUICE_AT(sluice_refused, reason, 16);
SLUICE_AT(sluice_refused, retry_ms, 20);
SLUICE_AT(sluice_refused, text, 24);
SLUICE_STATIC_ASSERT(sizeof(struct sluice_hello) == 24, "hello");
SLUICE_STATIC_ASSERT(sizeof(struct sluice_welcome) == 24, "welcome");
SLUICE_STATIC_ASSERT(sizeof(struct sluice_refused) == 128, "refused");

/* Returns whether this side understands the page. */
static inline int sluice_header_ok(const struct sluice_page_header* h, uint64_t magic) {
  return h->magic == magic && h->version >= SLUICE_WIRE_VERSION_MIN &&
         h->version <= SLUICE_WIRE_VERSION && h->size >= SLUICE_PAGE_SIZE;
}

/* Waking. The client publishes `waiting`, then reads `seq`; the daemon publishes `seq`, then reads
 * `waiting`. Each stores and then loads the other's word, and only sequential consistency keeps
 * both from reading the old value, which would be a lost wake-up. The litmus test overrides these
 * two macros to show that release and acquire are not enough. */
#ifndef SLUICE_WAKE_STORE
#define SLUICE_WAKE_STORE __ATOMIC_SEQ_CST
#define SLUICE_WAKE_LOAD __ATOMIC_SEQ_CST
#endif

static inline long sluice_futex(const uint32_t* word, int op, uint32_t value,
                                const struct timespec* timeout) {
  return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

static inline uint32_t sluice_seq(const struct sluice_permit_page* p) {
  return __atomic_load_n(&p->seq, SLUICE_WAKE_LOAD);
}

/* Sleeps while `seq` is `seen`, at most `ns`. Returns 0 on timeout. The caller has counted itself
 * in `waiting`. Needs only read access. */
static inline int sluice_permit_wait(const struct sluice_permit_page* p, uint32_t seen,
                                     uint64_t ns) {
  struct timespec timeout;
  timeout.tv_sec = (time_t)(ns / 1000000000u);
  timeout.tv_nsec = (long)(ns % 1000000000u);
  if (sluice_seq(p) != seen) return 1;
  return sluice_futex(&p->seq, FUTEX_WAIT, seen, &timeout) == 0 || errno != ETIMEDOUT;
}

static inline void sluice_permit_wake(struct sluice_permit_page* p,
                                      const struct sluice_usage_page* u) {
  SLUICE_STEP("wake: to come");
  if (__atomic_load_n(&u->waiting, SLUICE_WAKE_LOAD) != 0)
    sluice_futex(&p->seq, FUTEX_WAKE, INT_MAX, NULL);
}

/* The permit as a client reads it. */
struct sluice_grant {
  uint32_t seq;
  uint64_t valid_until_ns;
  uint64_t budget_ns;
  uint64_t now_ns;
  uint64_t allowed_ns, in_flight_ns;
};

/* A seqlock without fences: each field is stored with release after the odd `seq`. So a reader that
 * sees a new field also sees the odd number, or a later one, when it reads `seq` again. */
static inline void sluice_permit_write(struct sluice_permit_page* p, const struct sluice_grant* g) {
  const uint32_t odd = __atomic_load_n(&p->seq, __ATOMIC_RELAXED) | 1u;
  const uint32_t next = odd + 1u != 0 ? odd + 1u : 2u; /* 0 is never a grant */
  __atomic_store_n(&p->seq, odd, __ATOMIC_RELAXED);
  SLUICE_STEP("grant: closed");
  __atomic_store_n(&p->valid_until_ns, g->valid_until_ns, __ATOMIC_RELEASE);
  __atomic_store_n(&p->budget_ns, g->budget_ns, __ATOMIC_RELEASE);
  __atomic_store_n(&p->now_ns, g->now_ns, __ATOMIC_RELEASE);
  __atomic_store_n(&p->allowed_ns, g->allowed_ns, __ATOMIC_RELEASE);
  __atomic_store_n(&p->in_flight_ns, g->in_flight_ns, __ATOMIC_RELEASE);
  SLUICE_STEP("grant: written");
  __atomic_store_n(&p->seq, next, SLUICE_WAKE_STORE);
}

/* Grants busy time from when the client sees it (a CPU; any client of version 1). */
static inline void sluice_permit_grant(struct sluice_permit_page* p, uint64_t budget_ns,
                                       uint64_t valid_until_ns, uint64_t now_ns) {
  const struct sluice_grant g = {0, valid_until_ns, budget_ns, now_ns, 0, 0};
  sluice_permit_write(p, &g);
}

/* Grants work up to a total (a GPU). */
static inline void sluice_permit_allow(struct sluice_permit_page* p, uint64_t allowed_ns,
                                       uint64_t in_flight_ns, uint64_t valid_until_ns,
                                       uint64_t now_ns) {
  const struct sluice_grant g = {0, valid_until_ns, 0, now_ns, allowed_ns, in_flight_ns};
  sluice_permit_write(p, &g);
}

/* What the client measured in this time is its own work. Read in the other order than written: the
 * beginning is at least as new as the end. */
struct sluice_time_alone {
  uint64_t since_ns, until_ns;
};
static inline void sluice_say_alone(struct sluice_permit_page* p,
                                    const struct sluice_time_alone* alone) {
  __atomic_store_n(&p->alone_since_ns, alone->since_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&p->alone_until_ns, alone->until_ns, __ATOMIC_RELEASE);
}
static inline struct sluice_time_alone sluice_read_alone(const struct sluice_permit_page* p) {
  struct sluice_time_alone alone;
  alone.until_ns = __atomic_load_n(&p->alone_until_ns, __ATOMIC_ACQUIRE);
  alone.since_ns = __atomic_load_n(&p->alone_since_ns, __ATOMIC_RELAXED);
  return alone;
}

/* Revocation is this single store. */
static inline void sluice_permit_revoke(struct sluice_permit_page* p) {
  __atomic_store_n(&p->seq, __atomic_load_n(&p->seq, __ATOMIC_RELAXED) | 1u, SLUICE_WAKE_STORE);
  SLUICE_STEP("revoke: closed");
}

/* Reads the grant in force. Returns 0 if there is none (`seq` then holds the number seen). */
static inline int sluice_permit_read(const struct sluice_permit_page* p, struct sluice_grant* g) {
  int i;
  for (i = 0; i < 16; ++i) {
    g->seq = sluice_seq(p);
    if (g->seq & 1u) return 0;
    g->valid_until_ns = __atomic_load_n(&p->valid_until_ns, __ATOMIC_ACQUIRE);
    g->budget_ns = __atomic_load_n(&p->budget_ns, __ATOMIC_ACQUIRE);
    g->now_ns = __atomic_load_n(&p->now_ns, __ATOMIC_ACQUIRE);
    g->allowed_ns = __atomic_load_n(&p->allowed_ns, __ATOMIC_ACQUIRE);
    g->in_flight_ns = __atomic_load_n(&p->in_flight_ns, __ATOMIC_ACQUIRE);
    if (__atomic_load_n(&p->seq, __ATOMIC_RELAXED) == g->seq) return 1;
  }
  return 0; /* overtaken sixteen times: as good as none; the caller tries again */
}

/* The meter's words, as a client of version 2 means them. Each side writes or reads in the order in
 * which finished work is never more than submitted; all are at least as new as `seen_ns` says.
 * Values of a client: clamp them. */
struct sluice_device_report {
  uint64_t submitted_ns, finished_ns, host_ns, longest_ns, seen_ns;
  uint32_t stalled, awaiting; /* written by themselves */
};

static inline void sluice_device_report_write(struct sluice_usage_page* u,
                                              const struct sluice_device_report* r) {
  __atomic_store_n(&u->device_longest_ns, r->longest_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&u->host_ns, r->host_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&u->submitted_ns, r->submitted_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&u->finished_ns, r->finished_ns, __ATOMIC_RELEASE);
  __atomic_store_n(&u->device_seen_ns, r->seen_ns, __ATOMIC_RELEASE);
}

/* Of version 1: what has left `device_in_flight_ns` had come into `device_busy_ns` before, so that
 * a unit may count twice for a moment, and never not at all. */
static inline struct sluice_device_report sluice_device_report_read(
    const struct sluice_usage_page* u, uint32_t version) {
  struct sluice_device_report r;
  r.seen_ns = __atomic_load_n(&u->device_seen_ns, __ATOMIC_ACQUIRE);
  if (version >= 2u) {
    r.finished_ns = __atomic_load_n(&u->finished_ns, __ATOMIC_ACQUIRE);
    r.submitted_ns = __atomic_load_n(&u->submitted_ns, __ATOMIC_RELAXED);
  } else {
    const uint64_t in_flight_ns = __atomic_load_n(&u->device_in_flight_ns, __ATOMIC_ACQUIRE);
    r.finished_ns = __atomic_load_n(&u->device_busy_ns, __ATOMIC_RELAXED);
    r.submitted_ns = r.finished_ns + in_flight_ns;
  }
  r.host_ns = __atomic_load_n(&u->host_ns, __ATOMIC_RELAXED);
  r.longest_ns = __atomic_load_n(&u->device_longest_ns, __ATOMIC_RELAXED);
  r.stalled = __atomic_load_n(&u->stalled, __ATOMIC_RELAXED);
  r.awaiting = __atomic_load_n(&u->awaiting, __ATOMIC_RELAXED);
  return r;
}

#endif /* SLUICE_WIRE_PERMIT_PAGE_H_ */
/* NOLINTEND(modernize-use-nullptr) */
