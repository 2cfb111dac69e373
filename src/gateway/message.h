// An HTTP/1.1 message as it arrives: its head in one piece of memory, its body as pieces that stay
// where they were read. Beast's parser decides what is a head. Nothing is allocated per field, and
// nothing here reads or waits: the caller hands bytes in.
//
// Stricter than the parser: refuses folded lines, and bounds the head as a whole. Bodies are parsed
// by chunks.h, because Beast's parser asserts on a last chunk that comes in pieces. Not
// thread-safe.
#pragma once

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/verb.hpp>
#include <boost/system/error_code.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/chunks.h"

namespace sluice::gateway {

namespace http = boost::beast::http;
using boost::system::error_code;

// The head of a request or an answer. Reused: clear() keeps the memory. Views into it are valid
// until then.
class Head {
 public:
  struct Field {
    http::field id;  // unknown for names that Beast does not know
    std::string_view name, value;
  };

  void clear();
  // Returns false if the head would become larger than `limit`.
  bool set_line(std::string_view method_or_reason, std::string_view target, size_t limit);
  bool add(http::field id, std::string_view name, std::string_view value, size_t limit);

  std::string_view method() const { return view(line_); }  // of a request
  std::string_view target() const { return view(target_); }
  std::string_view reason() const { return view(line_); }  // of an answer

  size_t size() const { return places_.size(); }
  Field operator[](size_t i) const;
  // Returns the first one's value; nothing if there is none.
  std::optional<std::string_view> find(http::field id) const;
  std::optional<std::string_view> find(std::string_view name) const;

  http::verb verb = http::verb::unknown;
  unsigned status = 0;
  int version = 11;  // 10: HTTP/1.0

 private:
  struct Range {
    uint32_t at = 0, size = 0;
  };
  struct Place {
    http::field id;
    Range name, value;
  };
  std::string_view view(Range r) const { return std::string_view(text_).substr(r.at, r.size); }
  Range append(std::string_view text);

  std::string text_;
  std::vector<Place> places_;
  Range line_, target_;
};

template <bool kRequest>
class Message final : private http::basic_parser<kRequest> {
  using Parser = http::basic_parser<kRequest>;

 public:
  // Clears `head` and fills it; it must outlive the message.
  Message(Head& head, size_t head_limit);

  // For an answer without a body whatever its head says (to HEAD). Call before the first byte.
  void no_body() { Parser::skip(true); }

  // Takes bytes of the head; returns how many. Not done and no fault: more are needed.
  size_t take_head(std::string_view bytes, error_code& fault);
  bool head_done() const { return Parser::is_header_done(); }
  bool begun() const { return Parser::got_some(); }
  const Head& head() const { return head_; }

  // For a message whose head is done.
  bool keep_alive() const { return Parser::keep_alive(); }
  bool chunked() const { return chunked_; }
  std::optional<uint64_t> length() const;  // by its Content-Length
  bool done() const { return head_done() && (chunked_ ? chunks_.done() : left_ == 0); }
  // Returns how much of the body may be read at once without reading past it; 0 when chunked.
  uint64_t unframed() const { return chunked_ ? 0 : left_; }

  // Returns the body's next piece. No data, no fault and not done: more bytes are needed.
  BodyPiece take_body(std::string_view bytes, error_code& fault);
  // The peer closed: the end of a body of unknown length, a fault anywhere else.
  void take_end(error_code& fault);

 private:
  static constexpr uint64_t kUntilClose = std::numeric_limits<uint64_t>::max();

  using View = boost::beast::string_view;
  void on_request_impl(http::verb, View method, View target, int version, error_code&) override;
  void on_response_impl(int status, View reason, int version, error_code&) override;
  void on_field_impl(http::field, View name, View value, error_code&) override;
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<uint64_t>&, error_code&) override {}
  size_t on_body_impl(View, error_code&) override { return 0; }  // never handed in
  void on_chunk_header_impl(uint64_t, View, error_code&) override {}
  size_t on_chunk_body_impl(uint64_t, View, error_code&) override { return 0; }
  void on_finish_impl(error_code&) override {}

  Head& head_;
  const size_t head_limit_;
  const char* input_end_ = nullptr;
  uint64_t left_ = 0;  // of a body that is not chunked
  bool chunked_ = false;
  Chunks chunks_;
};

using Request = Message<true>;
using Answer = Message<false>;

}  // namespace sluice::gateway
