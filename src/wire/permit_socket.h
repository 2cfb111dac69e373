/* Where a process asks for permits to a device that is not a CPU: at the socket named in its
 * environment, else in the folder of its slice that a container mounts. Thread-safe as long as the
 * environment does not change. */
/* NOLINTBEGIN(modernize-use-nullptr): this is C */
#ifndef SLUICE_WIRE_PERMIT_SOCKET_H_
#define SLUICE_WIRE_PERMIT_SOCKET_H_

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define SLUICE_MOUNTED_PERMIT_SOCKET "/run/sluice/permit/sock"

/* Returns NULL if there is no socket to ask. */
static inline const char* sluice_permit_socket(void) {
  const char* named = getenv("SLUICE_PERMIT_SOCKET"); /* NOLINT(concurrency-mt-unsafe) */
  if (named != NULL) return named;
  const int saved_errno = errno;
  const int is_there = access(SLUICE_MOUNTED_PERMIT_SOCKET, F_OK) == 0;
  errno = saved_errno;
  return is_there ? SLUICE_MOUNTED_PERMIT_SOCKET : NULL;
}

#endif /* SLUICE_WIRE_PERMIT_SOCKET_H_ */
/* NOLINTEND(modernize-use-nullptr) */
