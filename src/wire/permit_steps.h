/* Labelled steps: places in the protocol's code where a test kills or stops the process that
 * reaches them (tests/death_test.cc). Only in a test build: release objects hold no trace of them,
 * and a test checks that. */
#ifndef SLUICE_WIRE_PERMIT_STEPS_H_
#define SLUICE_WIRE_PERMIT_STEPS_H_

#if !defined(SLUICE_STEPS)
#define SLUICE_STEP(label) ((void)0)
#else
#define SLUICE_STEP(label) sluice_step(label)
#ifdef __cplusplus
extern "C" void sluice_step(const char* label);
#else
void sluice_step(const char* label);
#endif
#endif

#endif /* SLUICE_WIRE_PERMIT_STEPS_H_ */
