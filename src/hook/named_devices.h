// The devices of a slice, as its environment names them (SLUICE_VISIBLE_DEVICES): UUIDs in the
// order of its parts, a comma between two. A program may change CUDA's own variable. Pure.
#pragma once

#include <string.h>

namespace sluice::hook {

constexpr int kDevices = 32;  // no more than the kernel's driver serves

// Calls visit(n, uuid, its length) until it returns true; which n that was, or -1. `list` may be
// null.
template <class Visit>
int find_device(const char* list, Visit&& visit) {
  for (int n = 0; list != nullptr && *list != 0 && n < kDevices; ++n) {
    const size_t length = strcspn(list, ",");
    if (visit(n, list, length)) return n;
    list += length + (list[length] == ',' ? 1 : 0);
  }
  return -1;
}

constexpr int kUuidSize = 41;

// A UUID in NVML's form: GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx.
inline void write_uuid(const char (&bytes)[16], char (&text)[kUuidSize]) {
  constexpr char kDigits[] = "0123456789abcdef";
  constexpr char kPrefix[] = "GPU-";
  memcpy(text, kPrefix, sizeof kPrefix);
  char* at = text + sizeof kPrefix - 1;
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) *at++ = '-';
    *at++ = kDigits[static_cast<unsigned char>(bytes[i]) >> 4];
    *at++ = kDigits[static_cast<unsigned char>(bytes[i]) & 15];
  }
  *at = 0;
}

// Which of them has this UUID; -1: none.
inline int number_of(const char* list, const char* uuid) {
  return find_device(list, [&](int, const char* text, size_t length) {
    return strlen(uuid) == length && memcmp(uuid, text, length) == 0;
  });
}

}  // namespace sluice::hook
