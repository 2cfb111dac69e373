// An open-loop load of clients that check every answer. Requests leave at planned times, and
// latency counts from the intended send time. Unlike cli/load_run.h it checks each answer's
// content, keeps one record per request, and has clients that send slowly or shut down early.
//
// One epoll in the thread that calls play(). The seed decides when and what is sent.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "sim/arrivals.h"

namespace sluice::bench {

// A request's body, and a text that a right answer contains.
struct Question {
  std::string body, right;
};

// The sum over a body that instances answer with: it reveals a wrong or mixed-up answer.
inline uint64_t checksum(std::string_view bytes) {
  uint64_t sum = 0;
  for (const char c : bytes) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return sum;
}

// `count` different inference requests of 372 bytes for a model with 64 inputs (the model "mlp").
// Their right answers hold `"sum":N`.
std::vector<Question> questions(int count, uint64_t seed);

struct OpenLoad {
  uint16_t port = 0;
  std::vector<std::string> paths;  // taken in turn
  std::vector<Question> ask;       // drawn at random
  sim::RatePlan plan;
  uint64_t seed = 1;
  Nanos patience = Seconds(10);           // counted from the intended send time
  int in_two_pieces = 0;                  // permille of clients that pause within their body
  Nanos pause = Millis(100);              // … for so long, before they read an answer
  int fresh = 0;                          // permille of requests that want a new connection
  bool resends = false;                   // once, if a kept connection breaks before the answer
  int half_closes = 0;                    // permille that close their side after the request
  std::atomic<bool>* stop = nullptr;      // set: sends no more
  std::function<void(Nanos)> every_tick;  // called about every 10 ms
};

enum class End : uint8_t { kAnswered, kBroken, kTimedOut };

struct Asked {
  Time intended{}, ended{};
  End end = End::kTimedOut;
  int status = 0;
  int retry_after = -1;  // seconds; -1: the answer has none
  bool right = false;    // 200, with the right text
  bool half_closed = false;
  int path = 0;

  Nanos latency() const { return ended - intended; }
};

// Plays the plan and returns when every request has ended.
std::vector<Asked> play(const OpenLoad& load);

// Latencies in milliseconds; a request without a right answer counts as `patience`.
std::vector<double> latencies(const std::vector<Asked>& asked, Nanos patience);

// The counted outcomes of a load.
struct Tally {
  int sent = 0, right = 0, wrong = 0, refused = 0, errors = 0, broken = 0, timed_out = 0;
  int failed() const { return sent - right; }
};
Tally tally(const std::vector<Asked>& asked);  // wrong: 200; refused: 429, 503; errors: the rest

}  // namespace sluice::bench
