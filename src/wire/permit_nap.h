/* A short sleep that lasts as long as it was asked to. The kernel may let a thread sleep longer by
 * its timer slack, by default 50 us: as long as a device stands idle when it changes hands. So the
 * slack is suspended for the sleep (0.2 us). Any thread; its errno stays. */
#ifndef SLUICE_WIRE_PERMIT_NAP_H_
#define SLUICE_WIRE_PERMIT_NAP_H_

#include <errno.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* NOLINTBEGIN(modernize-use-nullptr): this is C */
static inline void sluice_nap(uint64_t ns) {
  const int saved_errno = errno;
  const long slack = syscall(SYS_prctl, PR_GET_TIMERSLACK, 0, 0, 0, 0);
  struct timespec time;
  time.tv_sec = (time_t)(ns / 1000000000u);
  time.tv_nsec = (long)(ns % 1000000000u);
  if (slack > 1) syscall(SYS_prctl, PR_SET_TIMERSLACK, 1, 0, 0, 0);
  syscall(SYS_nanosleep, &time, NULL);
  if (slack > 1) syscall(SYS_prctl, PR_SET_TIMERSLACK, slack, 0, 0, 0);
  errno = saved_errno;
}
/* NOLINTEND(modernize-use-nullptr) */

#endif /* SLUICE_WIRE_PERMIT_NAP_H_ */
