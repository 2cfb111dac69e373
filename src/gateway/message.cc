#include "gateway/message.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <cstring>
#include <functional>

namespace sluice::gateway {
namespace {

std::string_view sv(boost::beast::string_view s) {
  return {s.data(), s.size()};
}

// Returns whether it is folded: a line break between the name and the value, or a value that the
// parser had to put together elsewhere.
bool folded(std::string_view name, std::string_view value, const char* input_end) {
  const char* from = name.data() + name.size();
  const std::less<const char*> before;
  if (before(value.data(), from) || before(input_end, value.data())) return true;
  return std::memchr(from, '\n', static_cast<size_t>(value.data() - from)) != nullptr;
}

}  // namespace

void Head::clear() {
  text_.clear();
  places_.clear();
  line_ = target_ = {};
  verb = http::verb::unknown;
  status = 0;
  version = 11;
}

Head::Range Head::append(std::string_view text) {
  const Range range{static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(text.size())};
  text_ += text;
  return range;
}

bool Head::set_line(std::string_view method_or_reason, std::string_view target, size_t limit) {
  if (method_or_reason.size() + target.size() > limit) return false;
  line_ = append(method_or_reason);
  target_ = append(target);
  return true;
}

bool Head::add(http::field id, std::string_view name, std::string_view value, size_t limit) {
  if (text_.size() + name.size() + value.size() > limit) return false;
  const Range at = append(name);
  places_.push_back({id, at, append(value)});
  return true;
}

Head::Field Head::operator[](size_t i) const {
  const Place& p = places_[i];
  return {p.id, view(p.name), view(p.value)};
}

std::optional<std::string_view> Head::find(http::field id) const {
  for (const Place& p : places_)
    if (p.id == id) return view(p.value);
  return std::nullopt;
}

std::optional<std::string_view> Head::find(std::string_view name) const {
  for (const Place& p : places_)
    if (p.name.size == name.size() && boost::beast::iequals(view(p.name), name))
      return view(p.value);
  return std::nullopt;
}

template <bool kRequest>
Message<kRequest>::Message(Head& head, size_t head_limit) : head_(head), head_limit_(head_limit) {
  head_.clear();
  Parser::header_limit(static_cast<uint32_t>(head_limit));
  Parser::body_limit(boost::none);
}

template <bool kRequest>
size_t Message<kRequest>::take_head(std::string_view bytes, error_code& fault) {
  input_end_ = bytes.data() + bytes.size();
  const size_t used = Parser::put(boost::asio::const_buffer(bytes.data(), bytes.size()), fault);
  if (fault == http::error::need_more) fault = {};
  if (fault || !head_done() || Parser::is_done()) return used;
  chunked_ = Parser::chunked();
  if (!chunked_) left_ = Parser::content_length() ? *Parser::content_length() : kUntilClose;
  return used;
}

template <bool kRequest>
std::optional<uint64_t> Message<kRequest>::length() const {
  const auto said = Parser::content_length();
  return said ? std::optional<uint64_t>(*said) : std::nullopt;
}

template <bool kRequest>
BodyPiece Message<kRequest>::take_body(std::string_view bytes, error_code& fault) {
  if (chunked_) return chunks_.take(bytes, fault);
  fault = {};
  const std::string_view data = bytes.substr(0, left_);
  if (left_ != kUntilClose) left_ -= data.size();
  return {data.size(), data};
}

template <bool kRequest>
void Message<kRequest>::take_end(error_code& fault) {
  fault = {};
  if (head_done() && left_ == kUntilClose)
    left_ = 0;
  else if (!done())
    fault = http::error::partial_message;
}

template <bool kRequest>
void Message<kRequest>::on_request_impl(http::verb verb, View method, View target, int version,
                                        error_code& fault) {
  head_.verb = verb;
  head_.version = version;
  if (version != 10 && version != 11) fault = http::error::bad_version;
  if (!head_.set_line(sv(method), sv(target), head_limit_)) fault = http::error::header_limit;
}

template <bool kRequest>
void Message<kRequest>::on_response_impl(int status, View reason, int version, error_code& fault) {
  head_.status = static_cast<unsigned>(status);
  head_.version = version;
  if (!head_.set_line(sv(reason), {}, head_limit_)) fault = http::error::header_limit;
}

template <bool kRequest>
void Message<kRequest>::on_field_impl(http::field id, View name, View value, error_code& fault) {
  if (folded(sv(name), sv(value), input_end_))
    fault = http::error::bad_obs_fold;
  else if (!head_.add(id, sv(name), sv(value), head_limit_))
    fault = http::error::header_limit;
}

template class Message<true>;
template class Message<false>;

}  // namespace sluice::gateway
