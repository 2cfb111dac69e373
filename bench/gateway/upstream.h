// The trivial upstream behind every contender: reads a request with a Content-Length, answers 1
// KiB. One thread, one epoll, in the process that calls it; never returns.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace sluice::bench {

// The sum that the answer carries ("sum=N"), computed only for requests with "X-Verify: 1".
inline uint64_t checksum(uint64_t sum, std::string_view bytes) {
  for (const char c : bytes) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return sum;
}

[[noreturn]] void serve_upstream(int listening, std::atomic<uint64_t>& answered);

}  // namespace sluice::bench
