/* The gate that every unit of work passes: an operator on a CPU, a launch on a GPU.
 *
 *   static struct sluice_gate gate = {"/run/sluice/permit.sock", 0};
 *   static __thread struct sluice_thread *mine;
 *   sluice_gate_pass(&gate, &mine);        // before each unit; returns when it may run
 *   sluice_gate_idle_begin(mine);          // no more work for now
 *   sluice_gate_idle_end(&gate, mine);     // work is coming; optional, the next pass says it too
 *
 * Any thread may call at any time except in a signal handler. The fast path costs one decrement and
 * one load. Every SLUICE_CHECK_NS or 64 launches, whichever comes first, a *checkpoint* reads the
 * clock. After a sudden change from very short to very long units the budget check may thus be up
 * to 64 units late; every launch still sees a revocation, and the daemon's meter charges what ran.
 * If the caller also meters, the meter bounds what may be submitted, and checkpoints are
 * SLUICE_CHECK_METERED times as far apart. */
/* NOLINTBEGIN(modernize-use-nullptr): this is C */
#ifndef SLUICE_WIRE_PERMIT_GATE_H_
#define SLUICE_WIRE_PERMIT_GATE_H_

#include "wire/permit_attach.h"

#define SLUICE_CHECK_NS 50000u
#define SLUICE_CHECK_LAUNCHES 64u
#define SLUICE_CHECK_METERED 4u
#define SLUICE_REPORT_UNITS 1024u            /* fast units are reported so many at once */
#define SLUICE_SPIN_NS 5000u                 /* a grant just asked for comes this soon */
#define SLUICE_SLEEP_NS (100 * SLUICE_MS_NS) /* the longest sleep without a check */
/* The longest that the gate ever blocks a thread. */
#define SLUICE_STUCK_NS (30000 * SLUICE_MS_NS)
/* The longest wait for a refill, without daemon. */
#define SLUICE_REFILL_DEBT_NS (5000 * SLUICE_MS_NS)
#define SLUICE_STEP_NS 10000u /* between reads of the process's CPU clock, at least */

/* --- the daemon's heartbeat ------------------------------------------------------------ */

/* Returns whether the daemon is alive: its heartbeat changed during the last 250 ms of our own
 * clock. A changed heartbeat is fresh; if it does not look so, our clock is shifted (a time
 * namespace, a jump), and `skew_ns` is the shift from then on. */
static inline int sluice_alive(struct sluice_attachment* at, uint64_t now) {
  const uint64_t beat = __atomic_load_n(&at->permit->heartbeat_ns, __ATOMIC_RELAXED);
  if (beat != __atomic_load_n(&at->beat_ns, __ATOMIC_RELAXED)) {
    const int64_t skew = __atomic_load_n(&at->skew_ns, __ATOMIC_RELAXED);
    int64_t age = (int64_t)(now - beat) - skew;
    if (age < 0) { /* the thread may have lost its processor since `now` was read */
      now = sluice_clock(CLOCK_MONOTONIC);
      age = (int64_t)(now - beat) - skew;
    }
    if (age < 0 || age > (int64_t)SLUICE_DEAD_NS)
      __atomic_store_n(&at->skew_ns, (int64_t)(now - beat), __ATOMIC_RELAXED);
    __atomic_store_n(&at->beat_seen_ns, now, __ATOMIC_RELAXED);
    __atomic_store_n(&at->beat_ns, beat, __ATOMIC_RELAXED);
  }
  /* Signed: another thread may have checked later than `now`. */
  return (int64_t)(now - __atomic_load_n(&at->beat_seen_ns, __ATOMIC_RELAXED)) <=
             (int64_t)SLUICE_DEAD_NS &&
         (__atomic_load_n(&at->permit->flags, __ATOMIC_RELAXED) & SLUICE_CLOSED) == 0;
}

/* --- budgets --------------------------------------------------------------------------- */

/* Returns the time by which a grant is spent: the CPU time of the process; on a GPU the work that
 * it has submitted if that is metered, else wall time. `at` may be NULL. */
static inline uint64_t sluice_spent_clock(const struct sluice_attachment* at, uint32_t millicores) {
  if (millicores != 0) return sluice_clock(CLOCK_PROCESS_CPUTIME_ID);
  if (at != NULL && at->metered) return __atomic_load_n(&at->usage->submitted_ns, __ATOMIC_RELAXED);
  return sluice_clock(CLOCK_MONOTONIC);
}

/* Convert that time to busy time of the slice, and to the least wall time in which so much can
 * pass, with all its cores at work. A device is never busy for longer than time passes. */
static inline uint64_t sluice_busy(uint64_t spent_ns, uint32_t millicores) {
  return millicores != 0 ? spent_ns * 1000 / millicores : spent_ns;
}
static inline uint64_t sluice_soonest(uint64_t busy_ns, uint32_t millicores) {
  const uint64_t cores = (millicores + 999u) / 1000u;
  return millicores != 0 ? busy_ns / 1000 * millicores / cores : busy_ns;
}

/* Returns how much more may be submitted under a grant of a GPU. */
static inline uint64_t sluice_allowance_left(const struct sluice_attachment* at,
                                             const struct sluice_grant* g) {
  const uint64_t submitted = __atomic_load_n(&at->usage->submitted_ns, __ATOMIC_RELAXED);
  return submitted < g->allowed_ns ? g->allowed_ns - submitted : 0;
}

/* Returns what is left of a grant. The count of busy time starts when the first thread of the
 * process sees the grant. */
static inline uint64_t sluice_grant_left(struct sluice_attachment* at, const struct sluice_grant* g,
                                         uint32_t millicores) {
  uint64_t spent, busy;
  if (at->metered && millicores == 0) return sluice_allowance_left(at, g);
  spent = sluice_spent_clock(at, millicores);
  __atomic_store_n(&at->usage->busy_ns, sluice_busy(spent, millicores), __ATOMIC_RELAXED);
  if (__atomic_load_n(&at->base_seq, __ATOMIC_ACQUIRE) != g->seq) {
    __atomic_store_n(&at->base_ns, spent, __ATOMIC_RELAXED);
    __atomic_store_n(&at->base_seq, g->seq, __ATOMIC_RELEASE);
    return g->budget_ns;
  }
  busy = sluice_busy(spent - __atomic_load_n(&at->base_ns, __ATOMIC_RELAXED), millicores);
  return busy < g->budget_ns ? g->budget_ns - busy : 0;
}

/* What a metered client may do: submit up to a total, with so much in flight. */
struct sluice_allowance {
  uint64_t allowed_ns, in_flight_ns;
};

/* There is no bound without a grant in force: the gate holds then. */
static inline struct sluice_allowance sluice_allowance_of(struct sluice_attachment* at,
                                                          uint64_t now) {
  struct sluice_allowance a = {UINT64_MAX, UINT64_MAX};
  struct sluice_grant g;
  if (!sluice_alive(at, now) || !sluice_permit_read(at->permit, &g)) return a;
  a.allowed_ns = g.allowed_ns;
  a.in_flight_ns = g.in_flight_ns;
  return a;
}

/* Returns whether the gate would stop a metered client's thread now. */
static inline int sluice_gate_holds(const struct sluice_attachment* at) {
  struct sluice_grant g;
  return !sluice_permit_read(at->permit, &g) || sluice_allowance_left(at, &g) == 0;
}

/* Returns whether the grant in force lets this thread go on, and until when it
 * need not ask again. */
static inline int sluice_granted(struct sluice_attachment* at, struct sluice_thread* t,
                                 uint64_t now) {
  const uint32_t millicores = __atomic_load_n(&at->permit->millicores, __ATOMIC_RELAXED);
  struct sluice_grant g;
  uint64_t left, deadline, step;
  if (!sluice_permit_read(at->permit, &g)) {
    t->seen = g.seq;
    return 0;
  }
  t->seen = g.seq;
  if (__atomic_load_n(&at->spent_seq, __ATOMIC_RELAXED) == g.seq) return 0;
  deadline = g.valid_until_ns + (uint64_t)__atomic_load_n(&at->skew_ns, __ATOMIC_RELAXED);
  left = (int64_t)(deadline - now) > 0 ? sluice_grant_left(at, &g, millicores) : 0;
  if (left == 0) {
    __atomic_store_n(&at->spent_seq, g.seq, __ATOMIC_RELAXED);
    return 0;
  }
  /* What is submitted does not keep to the clock: the meter bounds it. */
  step = at->metered ? deadline - now : sluice_soonest(left, millicores);
  if (step < SLUICE_STEP_NS) step = SLUICE_STEP_NS;
  t->go_until_ns = now + step < deadline ? now + step : deadline;
  return 1;
}

/* Without a daemon: goes on at the request, and no faster. Returns 0 if this thread may go on (and
 * until when it need not ask again), else how long to wait. */
static inline uint64_t sluice_refill_wait(const struct sluice_gate* g, struct sluice_process* p,
                                          struct sluice_thread* t, uint64_t beat_ns, uint64_t now) {
  struct sluice_refill* r = &p->refill;
  const uint32_t request = __atomic_load_n(&g->request, __ATOMIC_RELAXED);
  const uint32_t millicores = __atomic_load_n(&g->millicores, __ATOMIC_RELAXED);
  const uint64_t window = __atomic_load_n(&g->window_ns, __ATOMIC_RELAXED);
  const int64_t per_window = (int64_t)(window / 1000 * request);
  uint64_t spent, wait = 0;
  t->go_until_ns = now + SLUICE_CHECK_NS;
  if (request == 0 || window == 0) return 0; /* never attached: there is no request to keep to */
  if (!sluice_try_lock(&r->lock)) return 0;  /* another thread counts; the next check is soon */
  spent = sluice_spent_clock(__atomic_load_n(&p->current, __ATOMIC_ACQUIRE), millicores);
  if (r->started == 0 || r->beat_ns != beat_ns) {
    r->started = 1;
    r->beat_ns = beat_ns;
    r->left_ns = per_window;
    r->window_end_ns = now + window;
  } else {
    r->left_ns -= (int64_t)sluice_busy(spent - r->spent_ns, millicores);
  }
  r->spent_ns = spent;
  if ((int64_t)(now - r->window_end_ns) >= 0) {
    const uint64_t windows = 1 + (now - r->window_end_ns) / window;
    const int64_t worst = -(int64_t)(SLUICE_REFILL_DEBT_NS / 1000 * request);
    if (r->left_ns < worst) r->left_ns = worst;
    if (windows > SLUICE_REFILL_DEBT_NS / window)
      r->left_ns = per_window;
    else
      r->left_ns += (int64_t)windows * per_window;
    if (r->left_ns > per_window) r->left_ns = per_window;
    r->window_end_ns += windows * window;
  }
  if (r->left_ns <= 0) wait = r->window_end_ns - now;
  sluice_unlock(&r->lock);
  return wait;
}

/* --- counting threads ------------------------------------------------------------------ */

/* Reports the units passed, for people: no other code relies on it. All threads write the same
 * words, so they do it seldom. */
static inline void sluice_report_units(struct sluice_thread* t) {
  __atomic_add_fetch(&t->at->usage->units, t->units, __ATOMIC_RELAXED);
  t->units = 0;
}
static inline void sluice_report(struct sluice_thread* t, uint64_t passed_ns, uint32_t at_most) {
  struct sluice_usage_page* u = t->at->usage;
  const uint64_t each = passed_ns / t->batch;
  if (each > __atomic_load_n(&u->longest_ns, __ATOMIC_RELAXED))
    __atomic_store_n(&u->longest_ns, each, __ATOMIC_RELAXED);
  t->units += t->batch;
  if (t->batch < at_most || t->units >= SLUICE_REPORT_UNITS) sluice_report_units(t);
}

/* Reports it once no thread runs under the grant `seen` any more. */
static inline void sluice_stop_running(struct sluice_thread* t) {
  if (t->running) {
    t->running = 0;
    __atomic_sub_fetch(&t->at->running, 1u, __ATOMIC_SEQ_CST);
    SLUICE_STEP("stop: uncounted");
  }
  if (__atomic_load_n(&t->at->running, __ATOMIC_SEQ_CST) == 0)
    __atomic_store_n(&t->at->usage->ack_seq, t->seen | 1u, __ATOMIC_SEQ_CST);
}

static inline void sluice_bell(const struct sluice_attachment* at) {
  const uint64_t one = 1;
  if (syscall(SYS_write, at->bell, &one, sizeof one) < 0) return; /* it is full, so it is ringing */
}

/* Counts the thread out of, or into, a pair of pages. The daemon revokes and then reads `want`.
 * Either it sees the thread here, or the thread's next read of `seq` sees the revocation. */
static inline void sluice_leave(struct sluice_thread* t) {
  if (t->at == NULL) return;
  sluice_report_units(t);
  sluice_stop_running(t);
  SLUICE_STEP("leave: acknowledged");
  __atomic_sub_fetch(&t->at->usage->want, 1u, __ATOMIC_SEQ_CST);
  SLUICE_STEP("leave: left");
  t->at = NULL;
}
static inline void sluice_join(struct sluice_thread* t, struct sluice_attachment* at) {
  if (t->at == at) return;
  sluice_leave(t);
  t->at = at;
  t->checked_ns = 0;
  if (at == NULL) return;
  __atomic_add_fetch(&at->usage->want, 1u, __ATOMIC_SEQ_CST);
  SLUICE_STEP("join: counted");
}

/* Returns this thread's state: its slot (`mine`, unless a fork wiped it), a free one, or that of an
 * ended thread. Returns NULL if all are taken. */
static inline struct sluice_thread* sluice_claim(struct sluice_process* p,
                                                 struct sluice_thread* mine) {
  const uint32_t tid = (uint32_t)syscall(SYS_gettid);
  uint32_t i;
  if (mine != NULL && __atomic_load_n(&mine->owner, __ATOMIC_RELAXED) == tid) return mine;
  for (i = 0; i < 2 * SLUICE_THREADS; ++i) {
    struct sluice_thread* t = &p->threads[(tid + i) % SLUICE_THREADS];
    uint32_t owner = __atomic_load_n(&t->owner, __ATOMIC_RELAXED);
    if (owner == tid) return t;
    if (owner != 0 && (i < SLUICE_THREADS || syscall(SYS_tgkill, getpid(), owner, 0) == 0))
      continue;
    if (!__atomic_compare_exchange_n(&t->owner, &owner, tid, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      continue;
    sluice_leave(t);
    return t;
  }
  return NULL;
}

/* Returns the calling thread's slot; NULL if it has none yet. A slot that was taken once stays
 * taken, so that the search ends at the first free one. */
static inline struct sluice_thread* sluice_own_thread(const struct sluice_gate* g) {
  struct sluice_process* p = __atomic_load_n(&g->process, __ATOMIC_ACQUIRE);
  const uint32_t tid = (uint32_t)syscall(SYS_gettid);
  uint32_t i;
  for (i = 0; p != NULL && i < SLUICE_THREADS; ++i) {
    struct sluice_thread* t = &p->threads[(tid + i) % SLUICE_THREADS];
    const uint32_t owner = __atomic_load_n(&t->owner, __ATOMIC_RELAXED);
    if (owner == tid) return t;
    if (owner == 0) break;
  }
  return NULL;
}

/* --- the gate -------------------------------------------------------------------------- */

/* Blocks until `seq` changes, a refill is due, or it is time to check. */
static inline void sluice_block(struct sluice_attachment* at, struct sluice_thread* t, int spin,
                                uint64_t sleep_ns) {
  sluice_stop_running(t);
  SLUICE_STEP("block: acknowledged");
  __atomic_add_fetch(&at->usage->waiting, 1u, SLUICE_WAKE_STORE);
  SLUICE_STEP("block: waiting");
  if (sluice_seq(at->permit) == t->seen) {
    sluice_bell(at);
    SLUICE_STEP("block: rung");
    if (spin) {
      const uint64_t start = sluice_clock(CLOCK_MONOTONIC);
      while (sluice_seq(at->permit) == t->seen &&
             sluice_clock(CLOCK_MONOTONIC) - start < SLUICE_SPIN_NS) {
      }
    }
    sluice_permit_wait(at->permit, t->seen, sleep_ns);
    SLUICE_STEP("block: woken");
  }
  __atomic_sub_fetch(&at->usage->waiting, 1u, __ATOMIC_SEQ_CST);
}

/* Releases the thread until its next checkpoint: so many launches that at most SLUICE_CHECK_NS pass
 * at the pace of the last ones. */
static inline void sluice_set_off(struct sluice_thread* t, uint64_t now) {
  const uint32_t times = t->at != NULL && t->at->metered ? SLUICE_CHECK_METERED : 1;
  const uint32_t at_most = times * SLUICE_CHECK_LAUNCHES;
  if (t->checked_ns != 0 && t->batch != 0) {
    const uint64_t passed = now - t->checked_ns;
    const uint64_t fit = (uint64_t)t->batch * times * SLUICE_CHECK_NS / (passed != 0 ? passed : 1);
    const uint32_t twice = 2 * t->batch;
    if (t->at != NULL) sluice_report(t, passed, at_most);
    t->batch = fit < twice ? (uint32_t)fit : twice;
  }
  if (t->batch < 1) t->batch = 1;
  if (t->batch > at_most) t->batch = at_most;
  t->checked_ns = now;
  t->left = (int32_t)t->batch;
}

/* Without pages: free if there never were any, else (a forked child whose daemon is gone) at the
 * request. Every checkpoint looks for a daemon. */
static inline void sluice_run_alone(struct sluice_gate* g, struct sluice_process* p,
                                    struct sluice_thread* t, uint64_t now) {
  uint64_t wait;
  while ((wait = sluice_refill_wait(g, p, t, 0, now)) != 0) {
    struct timespec nap = {0, 0};
    nap.tv_nsec = (long)(wait < SLUICE_SLEEP_NS ? wait : SLUICE_SLEEP_NS);
    syscall(SYS_nanosleep, &nap, NULL);
    t->checked_ns = 0;
    now = sluice_clock(CLOCK_MONOTONIC);
  }
  t->seq = &p->open_seq;
  t->seen = 0;
  sluice_set_off(t, now);
}

/* Waits until the thread may run under `at`, by its grant or, without a daemon, by its request. */
static inline struct sluice_attachment* sluice_wait_permit(struct sluice_gate* g,
                                                           struct sluice_process* p,
                                                           struct sluice_thread* t,
                                                           struct sluice_attachment* at) {
  const uint64_t start = sluice_clock(CLOCK_MONOTONIC);
  uint64_t now = start;
  int spin = 1;
  for (;;) {
    uint64_t sleep_ns = SLUICE_SLEEP_NS;
    int go;
    sluice_join(t, at);
    if (sluice_alive(at, now) && now - start < SLUICE_STUCK_NS) {
      sluice_remember(g, at->permit);
      go = sluice_granted(at, t, now);
      spin = spin && t->seen != __atomic_load_n(&at->spent_seq, __ATOMIC_RELAXED);
    } else {
      uint64_t wait;
      sluice_attach_step(g, p, now);
      t->seen = sluice_seq(at->permit);
      wait = sluice_refill_wait(g, p, t, __atomic_load_n(&at->beat_ns, __ATOMIC_RELAXED), now);
      go = wait == 0;
      spin = 0;
      if (wait < sleep_ns) sleep_ns = wait;
    }
    if (go && !t->running) {
      SLUICE_STEP("pass: granted");
      t->running = 1;
      if (__atomic_add_fetch(&at->running, 1u, __ATOMIC_SEQ_CST) == 1)
        __atomic_store_n(&at->usage->ack_seq, t->seen, __ATOMIC_SEQ_CST);
      /* Revoked in between, and perhaps reported as stopped: check again. */
      if (__atomic_load_n(&at->permit->seq, __ATOMIC_SEQ_CST) != t->seen) continue;
    }
    if (go) {
      SLUICE_STEP("pass: through");
      return at;
    }
    sluice_block(at, t, spin, sleep_ns);
    t->checked_ns = 0;
    spin = 0;
    now = sluice_clock(CLOCK_MONOTONIC);
    at = __atomic_load_n(&p->current, __ATOMIC_ACQUIRE);
  }
}

/* Everything but the fast path. */
__attribute__((noinline, cold, unused)) static struct sluice_thread* sluice_gate_slow(
    struct sluice_gate* g, struct sluice_thread* t) {
  struct sluice_process* p = sluice_process_of(g);
  struct sluice_attachment* at;
  struct sluice_thread spare; /* more threads than slots: this launch is checked like a first one */
  const int saved_errno = errno;
  uint64_t now;
  if (p == NULL) return NULL;
  at = __atomic_load_n(&p->current, __ATOMIC_ACQUIRE);
  now = sluice_clock(CLOCK_MONOTONIC);

  /* A checkpoint: nothing has changed. */
  if (t != NULL && t->at != NULL && t->at == at && t->running &&
      sluice_seq(at->permit) == t->seen &&
      t->seen != __atomic_load_n(&at->spent_seq, __ATOMIC_RELAXED) && now < t->go_until_ns &&
      sluice_alive(at, now)) {
    sluice_set_off(t, now);
    return t;
  }
  t = sluice_claim(p, t);
  if (t == NULL) t = (struct sluice_thread*)memset(&spare, 0, sizeof spare);

  if (at == NULL) {
    if (__atomic_load_n(&p->waited, __ATOMIC_ACQUIRE))
      sluice_attach_step(g, p, now);
    else
      sluice_attach_first(g, p);
    at = __atomic_load_n(&p->current, __ATOMIC_ACQUIRE);
  }
  if (at == NULL) {
    sluice_run_alone(g, p, t, now);
  } else {
    at = sluice_wait_permit(g, p, t, at);
    t->seq = &at->permit->seq;
    sluice_set_off(t, sluice_clock(CLOCK_MONOTONIC));
  }
  if (t == &spare) {
    sluice_leave(t);
    t = NULL;
  }
  errno = saved_errno;
  return t;
}

/* The fast path alone: returns whether one more unit of work may run, as far as it can tell. */
static inline int sluice_gate_open(struct sluice_thread* t) {
  return __builtin_expect(t != NULL && --t->left > 0, 1) &&
         __builtin_expect(__atomic_load_n(t->seq, __ATOMIC_ACQUIRE) == t->seen, 1);
}

/* Returns once one more unit of work may run. */
static inline void sluice_gate_pass(struct sluice_gate* g, struct sluice_thread** mine) {
  if (!sluice_gate_open(*mine)) *mine = sluice_gate_slow(g, *mine);
}

/* More was used than the thread knows: its next pass checks the budget. */
static inline void sluice_gate_look(struct sluice_thread* t) {
  if (t == NULL) return;
  t->left = 0;
  t->go_until_ns = 0;
}

/* The thread has no work. A permit may stay parked with the process until another
 * client wants it. */
static inline void sluice_gate_idle_begin(struct sluice_thread* t) {
  struct sluice_attachment* at = t != NULL ? t->at : NULL;
  const int saved_errno = errno;
  if (at == NULL) return;
  sluice_leave(t);
  t->left = 0;
  if (__atomic_load_n(&at->usage->want, __ATOMIC_RELAXED) == 0 &&
      (__atomic_load_n(&at->permit->flags, __ATOMIC_SEQ_CST) & SLUICE_CONTENDED))
    sluice_bell(at);
  SLUICE_STEP("idle: said");
  errno = saved_errno;
}

/* Announces work before the first launch, which would otherwise announce it. */
static inline void sluice_gate_idle_end(struct sluice_gate* g, struct sluice_thread* t) {
  struct sluice_process* p = __atomic_load_n(&g->process, __ATOMIC_ACQUIRE);
  if (p == NULL || t == NULL || __atomic_load_n(&t->owner, __ATOMIC_RELAXED) == 0) return;
  sluice_join(t, __atomic_load_n(&p->current, __ATOMIC_ACQUIRE));
  t->left = 0;
}

enum sluice_gate_state {
  SLUICE_GATE_OPEN = 0,     /* never attached: nothing is enforced */
  SLUICE_GATE_ATTACHED = 1, /* by the daemon's permits */
  SLUICE_GATE_ALONE = 2,    /* the daemon is gone: at the request, by the process's own count */
};
static inline enum sluice_gate_state sluice_gate_state(struct sluice_gate* g) {
  struct sluice_process* p = __atomic_load_n(&g->process, __ATOMIC_ACQUIRE);
  struct sluice_attachment* at = p != NULL ? __atomic_load_n(&p->current, __ATOMIC_ACQUIRE) : NULL;
  if (at == NULL)
    return __atomic_load_n(&g->request, __ATOMIC_RELAXED) ? SLUICE_GATE_ALONE : SLUICE_GATE_OPEN;
  return sluice_alive(at, sluice_clock(CLOCK_MONOTONIC)) ? SLUICE_GATE_ATTACHED : SLUICE_GATE_ALONE;
}

#endif /* SLUICE_WIRE_PERMIT_GATE_H_ */
/* NOLINTEND(modernize-use-nullptr) */
