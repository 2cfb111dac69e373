#include "tests/support/steps.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>

#include "base/check.h"

namespace sluice {

Plan::Plan() : file_(memfd_create("steps", MFD_CLOEXEC)) {
  SLUICE_CHECK(file_.valid() && ftruncate(file_.get(), sizeof(StepsState)) == 0, "memfd");
  void* memory =
      mmap(nullptr, sizeof(StepsState), PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  SLUICE_CHECK(memory != MAP_FAILED && steps_role.plan == nullptr, "one plan at a time");
  state_ = new (memory) StepsState{};
  steps_role.plan = state_;
}

Plan::~Plan() {
  steps_role.plan = nullptr;
  munmap(state_, sizeof(StepsState));
}

void Plan::arm(Role role, const std::string& label, int signal) {
  SLUICE_CHECK(label.size() < StepsState::kLength, "the label is too long");
  state_->role = role;
  state_->signal = signal;
  std::strcpy(state_->label, label.c_str());
  state_->hit = 0;
  state_->armed = true;
}

void Plan::disarm() {
  state_->armed = false;
}

pid_t Plan::hit() const {
  return state_->hit;
}

bool Plan::wait_for_hit(Nanos patience) const {
  const SteadyClock clock;
  const Time give_up = clock.now() + patience;
  for (Time now = clock.now(); state_->hit == 0 && now < give_up; now = clock.now()) {
    const Nanos left = give_up - now;
    const timespec span{left / Seconds(1), (left % Seconds(1)).count()};
    syscall(SYS_futex, &state_->hit, FUTEX_WAIT, 0, &span, nullptr, 0);
  }
  return state_->hit != 0;
}

std::set<std::string> Plan::reached() const {
  std::set<std::string> labels;
  for (const StepsState::Seen& seen : state_->seen)
    if (seen.state == 2) labels.insert(seen.label);
  return labels;
}

std::string Plan::environment(Role role) const {
  return std::to_string(static_cast<int>(role)) + " /proc/" + std::to_string(getpid()) + "/fd/" +
         std::to_string(file_.get());
}

void Plan::play(Role role) {
  steps_role.role = role;
}

std::vector<std::string> labels_in(const std::vector<std::string>& sources) {
  const std::string step = "SLUICE_STEP(\"";
  std::vector<std::string> labels;
  for (const std::string& source : sources) {
    std::ifstream file(SLUICE_SOURCES + source);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    for (size_t at = text.find(step); at != text.npos; at = text.find(step, at)) {
      at += step.size();
      labels.push_back(text.substr(at, text.find('"', at) - at));
    }
  }
  return labels;
}

std::vector<std::string> all_labels() {
  std::vector<std::string> sources;
  for (const auto& file : std::filesystem::recursive_directory_iterator(SLUICE_SOURCES))
    if (const auto kind = file.path().extension(); kind == ".cc" || kind == ".h")
      sources.push_back(std::filesystem::relative(file.path(), SLUICE_SOURCES));
  return labels_in(sources);
}

}  // namespace sluice
