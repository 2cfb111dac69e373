/* How a program says which of its work is one iteration (a request, a batch, a training step), so
 * that arbiters can tell whether its iterations have become slow (Dilu's feedback). What a slice
 * preloads has both functions: the gate on CPUs (libsluice_gate.so), the hook on GPUs
 * (libsluice_cuda.so). Elsewhere they are missing. The hook infers the iterations of a program that
 * marks none (hook/iterations.h). python/sluice_serve.py calls them.
 *
 * Any thread may call. One iteration is open at a time: a begin while another is open, and the end
 * that follows it, count for nothing. They never wait and never fail, and do nothing for a program
 * without a permit. */
#ifndef SLUICE_WIRE_ITERATION_MARKS_H_
#define SLUICE_WIRE_ITERATION_MARKS_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void sluice_iteration_begin(void);
/* `kind`: iterations of one kind are comparable, such as those of one batch size. */
void sluice_iteration_end(uint32_t kind);

#ifdef __cplusplus
}
#endif

#endif /* SLUICE_WIRE_ITERATION_MARKS_H_ */
