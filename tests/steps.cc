#include "tests/steps.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <new>

#include "base/check.h"
#include "wire/permit_steps.h"

namespace sluice {
namespace {

constexpr size_t kLabels = 64, kLength = 48;

}  // namespace

struct Plan::State {
  struct Seen {
    std::atomic<uint32_t> state;  // 0: free, 1: being written, 2: there
    char label[kLength];
  };
  std::atomic<bool> armed;
  Part part;
  int signal;
  char label[kLength];
  std::atomic<pid_t> hit;
  int happened;  // an eventfd that all inherit: `hit` is set
  Seen seen[kLabels];
};

namespace {

void* current;  // Plan::State of this process and its children
Part part = Part::kNone;

}  // namespace

Plan::Plan() {
  void* memory =
      mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  SLUICE_CHECK(memory != MAP_FAILED && current == nullptr, "one plan at a time");
  state_ = new (memory) State{};
  state_->happened = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  SLUICE_CHECK(state_->happened >= 0, "no descriptors left");
  current = state_;
}

Plan::~Plan() {
  current = nullptr;
  close(state_->happened);
  munmap(state_, sizeof(State));
}

void Plan::arm(Part of, const std::string& label, int signal) {
  SLUICE_CHECK(label.size() < kLength, "the label is too long");
  state_->part = of;
  state_->signal = signal;
  std::strcpy(state_->label, label.c_str());
  state_->hit = 0;
  eventfd_t before = 0;
  (void)eventfd_read(state_->happened, &before);
  state_->armed = true;
}

pid_t Plan::hit() const {
  return state_->hit;
}

bool Plan::wait_for_hit(Nanos patience) const {
  pollfd happened{state_->happened, POLLIN, 0};
  return poll(&happened, 1, static_cast<int>(patience / Millis(1))) == 1;
}

std::set<std::string> Plan::reached() const {
  std::set<std::string> labels;
  for (const State::Seen& seen : state_->seen)
    if (seen.state == 2) labels.insert(seen.label);
  return labels;
}

void Plan::play(Part as) {
  part = as;
}

// A process may be killed by others here, too: who comes after it takes the next place.
void Plan::come_to(const char* label) {
  State* s = static_cast<State*>(current);
  if (s == nullptr || part == Part::kNone) return;
  for (State::Seen& seen : s->seen) {
    uint32_t free = 0;
    if (seen.state == 2 && std::strcmp(seen.label, label) == 0) break;
    if (!seen.state.compare_exchange_strong(free, 1)) continue;
    std::strncpy(seen.label, label, kLength - 1);
    seen.state = 2;
    break;
  }
  if (part != s->part || std::strcmp(s->label, label) != 0 || !s->armed.exchange(false)) return;
  s->hit = getpid();
  (void)eventfd_write(s->happened, 1);
  kill(getpid(), s->signal);
}

std::vector<std::string> labels_in(const std::string& path) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string step = "SLUICE_STEP(\"";
  std::vector<std::string> labels;
  for (size_t at = text.find(step); at != text.npos; at = text.find(step, at)) {
    at += step.size();
    labels.push_back(text.substr(at, text.find('"', at) - at));
  }
  return labels;
}

}  // namespace sluice

extern "C" void sluice_step(const char* label) {
  sluice::Plan::come_to(label);
}
