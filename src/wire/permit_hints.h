/* Optional hints of a client to the arbiters: by when its oldest waiting request should be
 * answered, and how long its iterations take. The daemon reads the words once a decision and clamps
 * them (enforce/hints.h). Our model server always gives them. The CUDA hook, which knows neither,
 * reports what it observes if the slice has an objective for iterations (sluice_slo).
 *
 * Any thread may call, but only one at a time for due times and one at a time for iterations. A
 * process without pages reports nothing; new pages are empty until the next hint. */
/* NOLINTBEGIN(modernize-use-nullptr): this is C */
#ifndef SLUICE_WIRE_PERMIT_HINTS_H_
#define SLUICE_WIRE_PERMIT_HINTS_H_

#include "wire/permit_gate.h"

static inline struct sluice_attachment* sluice_attached(struct sluice_gate* g) {
  struct sluice_process* p = __atomic_load_n(&g->process, __ATOMIC_ACQUIRE);
  return p != NULL ? __atomic_load_n(&p->current, __ATOMIC_ACQUIRE) : NULL;
}

/* Returns how long an iteration should take at most; 0 if there is no objective. */
static inline uint64_t sluice_slo(const struct sluice_attachment* at) {
  return __atomic_load_n(&at->permit->slo_ns, __ATOMIC_RELAXED);
}

/* Work in progress or waiting is due at `due_ns` of our CLOCK_MONOTONIC; 0: there is none. Returns
 * whether that is sooner than the due time reported before. */
static inline int sluice_say_due(struct sluice_attachment* at, uint64_t due_ns) {
  uint64_t before;
  if (due_ns != 0) {
    sluice_alive(at, sluice_clock(CLOCK_MONOTONIC)); /* how far our clock is ahead */
    due_ns -= (uint64_t)__atomic_load_n(&at->skew_ns, __ATOMIC_RELAXED);
    if ((int64_t)due_ns <= 0) due_ns = 1; /* long past on that clock */
  }
  before = __atomic_exchange_n(&at->usage->due_ns, due_ns, __ATOMIC_SEQ_CST);
  return due_ns != 0 && (before == 0 || due_ns < before);
}

/* The oldest waiting request is due then; 0: none waits. Rings the doorbell if another client waits
 * for the device and this is sooner than the due time reported before. */
static inline void sluice_hint_due(struct sluice_gate* g, uint64_t due_ns) {
  struct sluice_attachment* at = sluice_attached(g);
  if (at != NULL && sluice_say_due(at, due_ns) &&
      (__atomic_load_n(&at->permit->flags, __ATOMIC_RELAXED) & SLUICE_CONTENDED)) {
    const int saved_errno = errno;
    sluice_bell(at);
    errno = saved_errno;
  }
}

/* An iteration has begun now, when so much had been submitted; 0: none is open any more. `ring`:
 * the doorbell, if another client has work: its launches may have to wait for the iteration. */
static inline void sluice_say_begun(struct sluice_attachment* at, uint64_t begun_ns,
                                    uint64_t submitted_ns, int ring) {
  if (begun_ns != 0) begun_ns -= (uint64_t)__atomic_load_n(&at->skew_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&at->usage->begun_submitted_ns, submitted_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&at->usage->begun_ns, begun_ns, __ATOMIC_RELEASE);
  if (ring &&
      (__atomic_load_n(&at->permit->flags, __ATOMIC_RELAXED) & (SLUICE_CONTENDED | SLUICE_BESIDE)))
    sluice_bell(at);
}

/* An iteration (a batch, a training step) has ended that took `cycle_ns`. Cycles are comparable
 * within one `kind`: as many requests at once, as much work. */
static inline void sluice_say_iteration(struct sluice_attachment* at, uint64_t cycle_ns,
                                        uint32_t kind) {
  __atomic_store_n(&at->usage->cycle_ns, cycle_ns, __ATOMIC_RELAXED);
  SLUICE_STEP("hint: half said");
  __atomic_store_n(&at->usage->kind, kind, __ATOMIC_RELAXED);
  __atomic_add_fetch(&at->usage->iterations, 1u, __ATOMIC_RELEASE);
}
static inline void sluice_hint_iteration(struct sluice_gate* g, uint64_t cycle_ns, uint32_t kind) {
  struct sluice_attachment* at = sluice_attached(g);
  if (at != NULL) sluice_say_iteration(at, cycle_ns, kind);
}

#endif /* SLUICE_WIRE_PERMIT_HINTS_H_ */
/* NOLINTEND(modernize-use-nullptr) */
