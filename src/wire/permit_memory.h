/* Device memory between the node daemon and its clients (docs/design/cuda.md, memory): a page that
 * shows a slice's memory, and the conversation by which a process holds a part of it.
 *
 * The page is one per slice and device, written by the daemon alone, and read by all processes of
 * the slice. The conversation goes over a connection to permit.sock of its own: MEMORY_HELLO is
 * answered by MEMORY_WELCOME with the page's descriptor, or by REFUSED; then every HOLD by a HELD.
 * HOLD speaks of totals, never of differences, so that a lost or repeated message does no harm.
 *
 * A process that only wants to know the slice's memory sends LOOK instead, and does not become a
 * holder. SEEN or REFUSED answers it, and the connection ends.
 *
 * What a process holds ends with the process, not with its connection: a lost connection is made
 * anew, and the daemon reports what it has recorded. Little-endian, append-only, every offset
 * asserted. C11 and C++20. */
#ifndef SLUICE_WIRE_PERMIT_MEMORY_H_
#define SLUICE_WIRE_PERMIT_MEMORY_H_

#include "wire/permit_page.h"

#define SLUICE_MEMORY_MAGIC 0x4d4d454349554c53ull /* "SLUICEMM" */

/* The most that a process keeps ready for its next allocations; also bounded by its part of this
 * share of the limit. */
#define SLUICE_HEADROOM_BYTES (64ull << 20)
#define SLUICE_HEADROOM_SHARE 16u

/* The most processes of a slice that may hold memory. */
#define SLUICE_MEMORY_PROCESSES 256

struct sluice_memory_page {
  struct sluice_page_header header;
  uint8_t reserved0[40];
  uint64_t limit; /* bytes that all processes of the slice may hold together */
  uint64_t held;  /* bytes that they hold, contexts included; above the limit after it fell */
  uint32_t holders;
  uint8_t reserved1[4012];
};

struct sluice_memory_hello {
  struct sluice_message head;
  uint32_t device; /* which of the slice's devices, from 0 */
  uint32_t features;
  uint64_t used; /* bytes that it already has */
};

struct sluice_memory_welcome {
  struct sluice_message head;
  uint32_t generation;
  uint32_t features;
  uint64_t held; /* by this process, without its context */
};

struct sluice_hold {
  struct sluice_message head;
  uint64_t request; /* returned in the answer */
  uint64_t least;   /* holds so much in all, or nothing changes */
  uint64_t most;    /* anything above it is freed */
};

struct sluice_held {
  struct sluice_message head;
  uint64_t request;
  uint64_t held;
};

struct sluice_memory_look {
  struct sluice_message head;
  uint32_t device; /* which of the slice's devices, from 0 */
  uint32_t features;
};

struct sluice_memory_seen {
  struct sluice_message head;
  uint32_t generation;
  uint32_t processes; /* the number of valid `pids` */
  uint64_t limit;     /* this and the next as on the page */
  uint64_t held;
  uint32_t pids[SLUICE_MEMORY_PROCESSES]; /* those that hold memory, as the daemon sees them */
};
SLUICE_AT(sluice_memory_page, header, 0);
SLUICE_AT(sluice_memory_page, limit, 64);
SLUICE_AT(sluice_memory_page, held, 72);
SLUICE_AT(sluice_memory_page, holders, 80);
SLUICE_AT(sluice_memory_hello, device, 16);
SLUICE_AT(sluice_memory_hello, used, 24);
SLUICE_AT(sluice_memory_welcome, generation, 16);
SLUICE_AT(sluice_memory_welcome, held, 24);
SLUICE_AT(sluice_hold, request, 16);
SLUICE_AT(sluice_hold, least, 24);
SLUICE_AT(sluice_hold, most, 32);
SLUICE_AT(sluice_held, request, 16);
SLUICE_AT(sluice_held, held, 24);
SLUICE_AT(sluice_memory_look, device, 16);
SLUICE_AT(sluice_memory_seen, generation, 16);
SLUICE_AT(sluice_memory_seen, processes, 20);
SLUICE_AT(sluice_memory_seen, limit, 24);
SLUICE_AT(sluice_memory_seen, held, 32);
SLUICE_AT(sluice_memory_seen, pids, 40);
SLUICE_STATIC_ASSERT(sizeof(struct sluice_memory_page) == SLUICE_PAGE_SIZE, "memory page");
SLUICE_STATIC_ASSERT(sizeof(struct sluice_memory_hello) == 32, "memory hello");
SLUICE_STATIC_ASSERT(sizeof(struct sluice_memory_welcome) == 32, "memory welcome");
SLUICE_STATIC_ASSERT(sizeof(struct sluice_hold) == 40, "hold");
SLUICE_STATIC_ASSERT(sizeof(struct sluice_held) == 32, "held");
SLUICE_STATIC_ASSERT(sizeof(struct sluice_memory_look) == 24, "memory look");
SLUICE_STATIC_ASSERT(sizeof(struct sluice_memory_seen) == 1064, "memory seen");

#endif /* SLUICE_WIRE_PERMIT_MEMORY_H_ */
