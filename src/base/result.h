// Result<T>: a value, or an error that says what to do about it. Errors cross module borders as
// values; exceptions stay inside the module (and the library) that throws them.
//
//   Result<Slice> parse_slice(std::string_view text);
//   SLUICE_ASSIGN(slice, parse_slice(text));   // declares `slice`, or returns the error
//   SLUICE_TRY(store.save(slice));             // returns the error, if any
//
// Not thread-safe, like any value.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"

namespace sluice {

// Callers decide by the kind (a status code, a retry); the message is for people.
enum class ErrorKind {
  kInvalid,      // the input can never be valid: HTTP 400, exit code 2
  kDenied,       // not allowed: 401, 403
  kNotFound,     // 404
  kConflict,     // contradicts the present state: 409
  kExhausted,    // a limit is reached, may work later: 429
  kUnavailable,  // the other side is absent: 503
  kTimeout,      // 504
  kInternal,     // the system failed (disk, system call): 500
};

struct Error {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;
};

// Prefixes the place of the error: "function.yaml: slo: …".
inline Error within(std::string_view place, Error error) {
  error.message = std::string(place) + ": " + error.message;
  return error;
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // REQUIRES: ok()
  T& value() & {
    SLUICE_CHECK(ok(), std::get_if<1>(&state_) ? std::get<1>(state_).message : "no value");
    return std::get<0>(state_);
  }
  const T& value() const& { return const_cast<Result*>(this)->value(); }
  T&& value() && { return std::move(value()); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(value()); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // REQUIRES: !ok()
  const Error& error() const {
    SLUICE_CHECK(!ok(), "error() of a Result that holds a value");
    return std::get<1>(state_);
  }

  T value_or(T other) && { return ok() ? std::move(value()) : std::move(other); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}  // NOLINT: implicit

  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  const Error& error() const {
    SLUICE_CHECK(!ok_, "error() of a Result that succeeded");
    return error_;
  }

 private:
  Error error_;
  bool ok_ = true;
};

}  // namespace sluice

#define SLUICE_CONCAT_INNER(a, b) a##b
#define SLUICE_CONCAT(a, b) SLUICE_CONCAT_INNER(a, b)

#define SLUICE_TRY(expression)                                     \
  do {                                                             \
    if (auto&& result_ = (expression); !result_.ok()) [[unlikely]] \
      return result_.error();                                      \
  } while (false)

#define SLUICE_ASSIGN(name, expression)                \
  auto SLUICE_CONCAT(name, _result) = (expression);    \
  if (!SLUICE_CONCAT(name, _result).ok()) [[unlikely]] \
    return SLUICE_CONCAT(name, _result).error();       \
  auto& name = *SLUICE_CONCAT(name, _result)
