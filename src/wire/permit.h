/* Permits, the client's side, in one include: pages and messages, attaching, the gate, hints.
 * docs/design/permits.md says why. C11 and C++20, libc only; include it first (_GNU_SOURCE). */
#ifndef SLUICE_WIRE_PERMIT_H_
#define SLUICE_WIRE_PERMIT_H_

#include "wire/permit_attach.h"
#include "wire/permit_gate.h"
#include "wire/permit_hints.h"
#include "wire/permit_page.h"

#endif /* SLUICE_WIRE_PERMIT_H_ */
