// Any bytes, as a request or an answer, handed over whole and in pieces: the same head, body and
// end either way, and nothing in a field that could end it. The next hop reads what is passed on as
// the same message and nothing after it: request smuggling would break that. And no request asks
// for more inferences than its body has bytes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "gateway/head.h"
#include "gateway/inferences.h"
#include "gateway/message.h"

namespace {

using namespace sluice::gateway;
constexpr size_t kLimit = 2048;

void expect(bool holds) {
  if (!holds) std::abort();
}

struct Read {
  bool fault = false, head_done = false, done = false;
  std::string body;
  size_t used = 0;
};

// Offers `step` more bytes at a time; unused bytes are offered again, as a connection does.
template <bool kRequest>
Read read(std::string_view bytes, size_t step, Head& head) {
  Message<kRequest> message(head, kLimit);
  Read r;
  error_code fault;
  for (size_t offered = std::min(step, bytes.size());;
       offered = std::min(offered + step, bytes.size())) {
    for (bool progress = true; progress && !fault && !message.done();) {
      const std::string_view at_hand = bytes.substr(r.used, offered - r.used);
      if (at_hand.empty()) break;
      if (message.head_done()) {
        const auto piece = message.take_body(at_hand, fault);
        r.used += piece.used;
        r.body += piece.data;
        progress = piece.used > 0;
      } else {
        r.used += message.take_head(at_hand, fault);
        progress = message.head_done();
      }
      expect(r.used <= offered);
    }
    if (fault || message.done() || offered == bytes.size()) break;
  }
  r.fault = static_cast<bool>(fault);
  r.head_done = !fault && message.head_done();
  r.done = !fault && message.done();
  return r;
}

bool clean(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) == text.npos;
}

bool same(const Head& a, const Head& b) {
  if (a.size() != b.size() || a.method() != b.method() || a.target() != b.target()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].name != b[i].name || a[i].value != b[i].value) return false;
  return true;
}

// The next hop sees one message, with the requested framing.
template <bool kRequest>
void check_passed_on(const std::string& text, const Framing& framing) {
  Head head;
  Message<kRequest> message(head, 4 * kLimit);
  error_code fault;
  const size_t used = message.take_head(text, fault);
  expect(!fault && message.head_done() && used == text.size());
  if (kRequest) expect(check_framing(head).ok());
  expect(message.chunked() == framing.chunked);
  expect(framing.chunked || message.length() == framing.length);
  for (size_t i = 0; i < head.size(); ++i) expect(clean(head[i].name) && clean(head[i].value));
}

template <bool kRequest>
void check(std::string_view bytes, size_t step) {
  Head head, in_pieces;
  const Read whole = read<kRequest>(bytes, bytes.size(), head);
  const Read pieces = read<kRequest>(bytes, step, in_pieces);
  // A fault may come later in pieces; and the limit on a head is exact to a line only.
  if (whole.fault || bytes.size() >= kLimit) return;
  expect(!pieces.fault && whole.head_done == pieces.head_done && whole.done == pieces.done);
  expect(whole.body == pieces.body);
  if (!whole.head_done) return;
  expect(same(head, in_pieces));
  for (size_t i = 0; i < head.size(); ++i) expect(clean(head[i].name) && clean(head[i].value));
  std::string out;
  if constexpr (kRequest) {
    const int asked = inferences_asked(head, whole.body, whole.body.size());
    expect(asked >= 0 && asked <= static_cast<int>(whole.body.size()));
    if (!check_framing(head).ok()) return;
    const bool any = !whole.body.empty();
    const Framing framing{.length =
                              any ? std::optional<uint64_t>(whole.body.size()) : std::nullopt};
    put_request_head(out, head, {.request_id = "id", .framing = framing});
    check_passed_on<true>(out, framing);
  } else {
    if (head.status < 200 || !has_body(http::verb::get, head.status)) return;
    const Framing framing{.length = whole.body.size()};
    put_response_head(out, head, "id", framing, Persistence::kKeep);
    check_passed_on<false>(out, framing);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const size_t step = data[1] % 64 + 1u;
  if (data[0] % 2 == 0)
    check<true>(bytes, step);
  else
    check<false>(bytes, step);
  return 0;
}
