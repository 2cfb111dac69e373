// A map from addresses (or other numbers that are not 0) to small values, for a library that has
// libc alone: open addressing, grown by doubling, removal by moving later entries up (Knuth 6.4 R).
// All zeros is an empty one, so that it may lie in memory that a fork wipes. Not thread-safe.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "wire/permit_attach.h"

namespace sluice::hook {

template <class Value>
class AddressTable {
 public:
  // Returns nullptr if it is not there; 0 never is. Good until the next change.
  Value* find(uint64_t key) {
    if (capacity_ == 0 || key == 0) return nullptr;
    Slot& slot = slots_[place_of(key)];
    return slot.key == key ? &slot.value : nullptr;
  }

  // A value that is there is replaced. False: there is no memory for more.
  bool insert(uint64_t key, const Value& value) {
    if (2 * (count_ + 1) > capacity_ && !grow()) return false;
    Slot& slot = slots_[place_of(key)];
    count_ += slot.key == 0 ? 1 : 0;
    slot = {key, value};
    return true;
  }

  bool remove(uint64_t key) {
    if (find(key) == nullptr) return false;
    size_t hole = place_of(key);
    for (size_t next = (hole + 1) % capacity_; slots_[next].key != 0;
         next = (next + 1) % capacity_) {
      const size_t home = home_of(slots_[next].key);
      // It may move up unless its home lies behind the hole.
      if ((next - home) % capacity_ < (next - hole) % capacity_) continue;
      slots_[hole] = slots_[next];
      hole = next;
    }
    slots_[hole].key = 0;
    --count_;
    return true;
  }

  template <class Visit>
  void for_each(Visit visit) {
    for (size_t i = 0; i < capacity_; ++i)
      if (slots_[i].key != 0) visit(slots_[i].key, slots_[i].value);
  }

 private:
  static constexpr size_t kFirst = 128;  // a power of two, as all capacities
  struct Slot {
    uint64_t key;
    Value value;
  };

  size_t home_of(uint64_t key) const {
    return (key * 0x9e3779b97f4a7c15u >> 32) & (capacity_ - 1);  // Fibonacci
  }
  size_t place_of(uint64_t key) const {
    size_t at = home_of(key);
    while (slots_[at].key != 0 && slots_[at].key != key) at = (at + 1) % capacity_;
    return at;
  }
  bool grow() {
    AddressTable larger{};
    larger.capacity_ = capacity_ != 0 ? 2 * capacity_ : kFirst;
    larger.slots_ = static_cast<Slot*>(sluice_wiped_memory(larger.capacity_ * sizeof(Slot)));
    if (larger.slots_ == nullptr) return false;
    for_each([&](uint64_t key, const Value& value) { larger.insert(key, value); });
    if (slots_ != nullptr) munmap(slots_, capacity_ * sizeof(Slot));
    *this = larger;
    return true;
  }

  Slot* slots_;
  size_t capacity_, count_;
};

}  // namespace sluice::hook
