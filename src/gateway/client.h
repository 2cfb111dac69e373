// The client's side of a session: reads requests, keeps or streams their bodies, writes answers.
// Handles HTTP, not queues.
//
// Belongs to its session; runs on its loop's thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/connection.h"
#include "gateway/head.h"
#include "gateway/loop.h"
#include "gateway/watch.h"

namespace sluice::gateway {

class Client {
 public:
  Client(Loop& loop, std::unique_ptr<Stream> stream, Watch& watch, const SessionLimits& limits);
  ~Client();

  // ---- the request -----------------------------------------------------------------------------

  // Reads the next request's head. Returns nothing once it has arrived. Otherwise the session ends;
  // with a status the client is informed first.
  struct Unread {
    int status = 0;
    std::string why;
  };
  Awaitable<std::optional<Unread>> read_request();
  const Head& head() const { return head_; }
  bool longer_than(size_t bytes) const;  // by its Content-Length
  uint64_t body_bytes() const;           // by that, else what is kept of it
  bool wants_continue() const;
  Awaitable<bool> send_continue();

  // Keeps the body, to be sent as often as needed. Returns false if it has not arrived: read it.
  bool keep_what_is_here();
  // kTooLarge: kept() is its beginning, the rest is to be streamed. kOver: more than is allowed.
  enum class Body { kWhole, kTooLarge, kOver, kLate, kLeft, kBroken };
  Awaitable<Body> keep_body(Time no_later);
  std::string_view kept() const { return kept_; }
  // Returns whether the body has been read to its end.
  bool whole() const { return request_->done(); }
  // Returns whether the body has been read to its end, and all of it is kept().
  bool kept_whole() const { return whole() && !streamed_; }
  // Returns what follows kept(), piece by piece; where it breaks off, body_fault() gives the
  // reason.
  Awaitable<Piece> next_piece();
  Body body_fault() const { return body_fault_; }  // kWhole: none
  // Returns its framing for an instance.
  Framing framing() const;
  // Breaks the connection of a client that has left, which TCP does when something is sent to it:
  // an interim answer, which a waiting client skips. Returns false if it has broken. It cannot
  // detect clients of HTTP/1.0, which know no interim answer, or under TLS.
  bool probe();
  // The client has left: closes the connection, and gives back what is kept of its body.
  void leave();
  // Reads on to the next request, if that is not far; else the connection must close.
  Awaitable<void> drop_body();

  // ---- the answer ------------------------------------------------------------------------------

  // Sends an answer of the gateway's own. Returns false if the connection ends.
  Awaitable<bool> send_own(const OwnAnswer& answer);
  Awaitable<bool> send_error(int status, std::string_view why, std::string_view extra = "");

  // An instance's answer: its head, which goes out with the first piece of its body; its pieces.
  // The last piece, which may be empty, ends it.
  void begin_answer(const Answer& answer);
  bool answer_begun() const { return answer_begun_; }  // something went out
  bool answer_has_body() const { return has_body_; }
  Awaitable<error_code> send_piece(std::string_view piece, bool last);

  // Returns the client's X-Request-Id, or ours if it sent none.
  std::string_view request_id() const;
  std::string_view own_request_id() const { return own_id_; }

  // Before closing: lets the client read our last answer although the rest of its data stays
  // unread.
  Awaitable<void> linger();

  // Returns whether the client has already sent more, before it had the last answer.
  bool pipelines() const { return connection_.buffer.size() > 0; }
  bool keep() const { return keep_; }
  void close_after() { keep_ = false; }
  Socket& socket() { return connection_.stream->socket(); }
  bool is_tls() const { return connection_.stream->is_tls(); }

 private:
  bool nothing_yet();
  Awaitable<void> refuse_http2();
  Awaitable<Body> read_body();
  Awaitable<Body> keep_in_buffer();
  Awaitable<Body> keep_in_room();
  void hurry();
  void begin_wait();
  void end_wait(size_t bytes);
  Body fault_of_body(error_code fault) const;
  Persistence persistence() const;

  Loop& loop_;
  Connection connection_;
  Watch& watch_;
  const SessionLimits& limits_;
  Head head_;
  std::optional<Request> request_;
  std::string own_id_;            // empty when the client sent one
  std::string_view kept_;         // in the connection's buffer, or in …
  std::unique_ptr<char[]> room_;  // … this
  std::string out_;               // an own answer, or an instance's head until it goes out
  Time body_by_ = Time::max();
  Time waits_since_{};
  Nanos patience_{0};          // how long the gateway still waits for the body
  bool must_be_fast_ = false;  // because it is larger than what is kept
  Body body_fault_ = Body::kWhole;
  bool streamed_ = false;
  uint64_t streamed_bytes_ = 0;
  bool keep_ = false, has_body_ = false, chunks_ = false, answer_begun_ = false;
};

}  // namespace sluice::gateway
