// The code of a process that reaches a labelled step (wire/permit_steps.h): notes it in its plan,
// and ends or stops if the plan says so. Libc alone: the tests' hook is built with it.
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

#include "tests/support/steps_state.h"
#include "wire/permit_steps.h"

namespace sluice {

StepsRole steps_role;

namespace {

pthread_once_t looked = PTHREAD_ONCE_INIT;

// Finds the plan that the program was started with; a forked process has its parent's.
void find_plan() {
  const char* words = getenv(kStepsVariable);
  if (steps_role.plan != nullptr || words == nullptr || strlen(words) < 3) return;
  const int file = open(words + 2, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  void* memory = mmap(nullptr, sizeof(StepsState), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return;
  steps_role = {static_cast<StepsState*>(memory), static_cast<Role>(words[0] - '0')};
}

// Other processes may be killed here, too: the next one takes the next place.
void note(StepsState& plan, const char* label) {
  for (StepsState::Seen& seen : plan.seen) {
    uint32_t free = 0;
    if (seen.state == 2 && strcmp(seen.label, label) == 0) return;
    if (!seen.state.compare_exchange_strong(free, 1)) continue;
    strncpy(seen.label, label, StepsState::kLength - 1);
    seen.state = 2;
    return;
  }
}

}  // namespace
}  // namespace sluice

extern "C" void sluice_step(const char* label) {
  using namespace sluice;
  pthread_once(&looked, find_plan);
  StepsState* plan = steps_role.plan;
  if (plan == nullptr || steps_role.role == Role::kNone) return;
  note(*plan, label);
  if (!plan->armed || steps_role.role != plan->role || strcmp(plan->label, label) != 0) return;
  if (!plan->armed.exchange(false)) return;
  plan->hit = getpid();
  syscall(SYS_futex, &plan->hit, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  kill(getpid(), plan->signal);
}
