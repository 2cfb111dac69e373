/* The header from C11: the same layout, no warning, every part of it callable. */
#include "wire/permit.h"

int sluice_test_from_c(struct sluice_gate* gate);

int sluice_test_from_c(struct sluice_gate* gate) {
  struct sluice_thread* mine = NULL;
  sluice_gate_pass(gate, &mine);
  sluice_gate_idle_begin(mine);
  sluice_gate_idle_end(gate, mine);
  return (int)sluice_gate_state(gate);
}
