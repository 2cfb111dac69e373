/* Asserts that a message or page has the layout that processes of other versions rely on. C and
 * C++. */
#ifndef SLUICE_WIRE_LAYOUT_H_
#define SLUICE_WIRE_LAYOUT_H_

#include <stddef.h>

#ifdef __cplusplus
#define SLUICE_STATIC_ASSERT static_assert
#else
#define SLUICE_STATIC_ASSERT _Static_assert
#endif

#define SLUICE_AT(type, field, offset) \
  SLUICE_STATIC_ASSERT(offsetof(struct type, field) == (offset), #type "." #field)

#endif /* SLUICE_WIRE_LAYOUT_H_ */
