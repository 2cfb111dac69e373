// The instance's side of a session: one request to one instance, and its answer as it arrives.
//
// Belongs to its session; runs on its loop's thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "gateway/client.h"

namespace sluice::gateway {

class Exchange {
 public:
  Exchange(Loop& loop, Watch& watch, const SessionLimits& limits)
      : loop_(loop), watch_(watch), limits_(limits) {}

  // Sends the client's request to the granted instance, reports to the dispatcher when all of a
  // streamed body has gone there, and waits for the head of the answer.
  enum class Step {
    kAnswers,  // answer() has a head
    kRefused,  // no connection: nothing was sent
    kDied,     // broke before the first byte of an answer
    kGarbled,  // broke within the head, or is not HTTP
    kNotSent,  // the client did not send all of its body: see its body_fault()
    kLeft,     // the client left, and the instance may be at work on its request: await_end()
  };
  Awaitable<Step> ask(Waiter& request, Client& client, const Forwarded& with, Time answer_by);

  const Answer& answer() const { return *answer_; }
  // Returns the body's next piece; empty: the end.
  Awaitable<Piece> next_piece();
  // The answer came before all of the request was sent: the client's connection cannot be used
  // again.
  bool early() const { return early_; }

  // Keeps the connection for the next request if possible, else closes it. Invalidates pieces.
  void release();
  void abandon() { connection_.reset(); }
  // After kLeft: closes the sending side, by which the instance may notice, and waits until it has
  // answered or closed its end, or until the watch expires. Drops what it answers.
  Awaitable<void> await_end(bool no_body);
  // Makes waiting calls return.
  void cancel();

 private:
  Awaitable<error_code> send(Waiter& request, Client& client, Time answer_by);
  Awaitable<error_code> stream_body(Client& client, Time answer_by);
  Awaitable<error_code> read_answer_head(bool no_body);

  Loop& loop_;
  Watch& watch_;
  const SessionLimits& limits_;
  std::string socket_;  // of the instance
  std::unique_ptr<Connection> connection_;
  std::string out_;
  Head head_;
  std::optional<Answer> answer_;
  bool early_ = false;
  bool once_ = false;  // a connection of its own
};

}  // namespace sluice::gateway
