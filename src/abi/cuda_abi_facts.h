// A header's statements about the CUDA driver's interface, as values that can be compared. For
// cuda_abi_test alone. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <type_traits>

// A header's statements: the name of a constant, type, field or function, and its value, size,
// offset and size, or signature.
using Facts = std::map<std::string, std::string>;

Facts facts_of_our_header();
Facts facts_of_cuda_h();

// For a pointer, a pointer's size is meant.
// NOLINTBEGIN(bugprone-sizeof-expression)

// How a function of the C ABI takes its arguments: "4(8p,4)" returns four bytes and takes a pointer
// and four bytes. Typed pointers are alike: C++ cannot compare types of two headers.
template <typename T>
std::string shape_of() {
  if constexpr (std::is_void_v<T>)
    return "";
  else
    return std::to_string(sizeof(T)) + (std::is_pointer_v<T> ? "p" : "") +
           (std::is_class_v<T> ? "s" : "");
}
template <typename F>
struct Signature;
template <typename R, typename... Args>
struct Signature<R(Args...)> {
  static std::string text() {
    std::string text = shape_of<R>() + "(";
    ((text += shape_of<Args>() + ","), ...);
    return text + ")";
  }
};

#define VALUE(name) facts["value of " #name] = std::to_string((std::uint64_t)(name));
#define SIZE(type) facts["size of " #type] = std::to_string(sizeof(type));
#define FIELD(type, field)           \
  facts["field " #type "." #field] = \
      std::to_string(offsetof(type, field)) + "+" + std::to_string(sizeof(type::field));
#define CALL(function) facts["call " #function] = Signature<decltype(function)>::text();
// NOLINTEND(bugprone-sizeof-expression)
