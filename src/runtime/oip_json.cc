#include "runtime/oip_json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "wire/json/non_finite.h"

namespace sluice::runtime {
namespace {

using simdjson::dom::element;

// Calls `use` with a value of the C++ type of a datatype; returns false for those that JSON cannot
// carry.
template <class Use>
bool with_json_type(Datatype d, Use use) {
  switch (d) {
    case Datatype::kBool:
      return use(bool{}), true;
    case Datatype::kUint8:
      return use(uint8_t{}), true;
    case Datatype::kUint16:
      return use(uint16_t{}), true;
    case Datatype::kUint32:
      return use(uint32_t{}), true;
    case Datatype::kUint64:
      return use(uint64_t{}), true;
    case Datatype::kInt8:
      return use(int8_t{}), true;
    case Datatype::kInt16:
      return use(int16_t{}), true;
    case Datatype::kInt32:
      return use(int32_t{}), true;
    case Datatype::kInt64:
      return use(int64_t{}), true;
    case Datatype::kFp32:
      return use(float{}), true;
    case Datatype::kFp64:
      return use(double{}), true;
    case Datatype::kBytes:
      return use(std::string_view{}), true;
    case Datatype::kFp16:
    case Datatype::kBf16:
      return false;
  }
  return false;
}

// Returns the number that mark_non_finite() has put there; nothing if the element is another.
const wire::NonFinite* non_finite(element e) {
  simdjson::dom::object mark;
  if (e.get(mark) != simdjson::SUCCESS || mark.size() != 1) return nullptr;
  const auto* found =
      std::ranges::find(wire::kNonFinite, (*mark.begin()).key, &wire::NonFinite::text);
  return found == std::end(wire::kNonFinite) ? nullptr : found;
}

template <class T>
bool read_element(element e, T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (double wide; e.get(wide) == simdjson::SUCCESS) {
      value = static_cast<T>(wide);
      return std::isfinite(value);
    }
    const wire::NonFinite* number = non_finite(e);
    if (number != nullptr) value = static_cast<T>(number->value);
    return number != nullptr;
  } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, uint64_t> ||
                       std::is_same_v<T, int64_t> || std::is_same_v<T, std::string_view>) {
    return e.get(value) == simdjson::SUCCESS;
  } else {
    int64_t wide;
    if (e.get(wide) != simdjson::SUCCESS) return false;
    value = static_cast<T>(wide);
    return static_cast<int64_t>(value) == wide;
  }
}

template <class T>
void append(const T& value, std::string& data) {
  if constexpr (std::is_same_v<T, std::string_view>)
    append_bytes_element(data, value);
  else
    data.append(reinterpret_cast<const char*>(&value), sizeof value);
}

Error at_element(const Tensor& t, const std::string& why) {
  return {ErrorKind::kInvalid, "tensor '" + t.name + "': data: " + why};
}

template <class T>
class Reader {
 public:
  explicit Reader(Tensor& tensor) : tensor_(tensor) {}

  Result<void> flat(simdjson::dom::array elements, int64_t expected) {
    int64_t count = 0;
    for (const element e : elements) {
      if (count == expected) return at_element(tensor_, "more than " + describe(expected));
      SLUICE_TRY(scalar(e, count++));
    }
    if (count != expected)
      return at_element(tensor_, std::to_string(count) + " elements, not " + describe(expected));
    return {};
  }

  Result<void> nested(simdjson::dom::array elements, size_t dimension) {
    if (dimension + 1 == tensor_.shape.size()) return flat(elements, tensor_.shape[dimension]);
    int64_t count = 0;
    for (const element e : elements) {
      simdjson::dom::array inner;
      if (e.get(inner) != simdjson::SUCCESS)
        return at_element(tensor_, "neither flat nor nested as shape " + to_string(tensor_.shape));
      if (++count > tensor_.shape[dimension]) break;
      SLUICE_TRY(nested(inner, dimension + 1));
    }
    if (count != tensor_.shape[dimension])
      return at_element(tensor_, "dimension " + std::to_string(dimension) + " does not have the " +
                                     std::to_string(tensor_.shape[dimension]) + " parts of shape " +
                                     to_string(tensor_.shape));
    return {};
  }

  // All elements in their order, however they are nested; counts them.
  Result<void> any_depth(simdjson::dom::array elements, int64_t expected, int64_t& count) {
    for (const element e : elements) {
      if (simdjson::dom::array inner; e.get(inner) == simdjson::SUCCESS) {
        SLUICE_TRY(any_depth(inner, expected, count));
        continue;
      }
      if (count == expected) return at_element(tensor_, "more than " + describe(expected));
      SLUICE_TRY(scalar(e, count++));
    }
    return {};
  }

  Result<void> read(simdjson::dom::array elements, size_t depth, int64_t expected) {
    if (depth <= 1) return flat(elements, expected);
    if (depth <= tensor_.shape.size()) return nested(elements, 0);
    int64_t count = 0;
    SLUICE_TRY(any_depth(elements, expected, count));
    if (count == expected) return {};
    return at_element(tensor_, std::to_string(count) + " elements, not " + describe(expected));
  }

 private:
  std::string describe(int64_t expected) const {
    return "the " + std::to_string(expected) + " that shape " + to_string(tensor_.shape) + " has";
  }

  Result<void> scalar(element e, int64_t index) {
    T value;
    if (!read_element(e, value)) {
      const wire::NonFinite* number = non_finite(e);
      const std::string shown = number != nullptr ? std::string(number->text) : simdjson::minify(e);
      return at_element(tensor_, "element " + std::to_string(index) + " (" + shown.substr(0, 40) +
                                     ") is no " + std::string(to_string(tensor_.datatype)));
    }
    append(value, tensor_.data);
    return {};
  }

  Tensor& tensor_;
};

// Returns how deep the first element lies.
size_t depth_of(element e) {
  size_t depth = 0;
  for (simdjson::dom::array inner; e.get(inner) == simdjson::SUCCESS; e = *inner.begin()) {
    ++depth;
    if (inner.begin() == inner.end()) break;
  }
  return depth;
}

bool fits_in_64_bits(std::string_view integer) {
  int64_t narrow;
  uint64_t wide;
  const char *from = integer.data(), *end = from + integer.size();
  return std::from_chars(from, end, narrow).ec == std::errc() ||
         std::from_chars(from, end, wide).ec == std::errc();
}

template <class T>
void write_element(T value, std::string& out) {
  if constexpr (std::is_same_v<T, bool>) {
    out += value ? "true" : "false";
  } else {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(value)) return void(out += "NaN");
      if (std::isinf(value)) return void(out += value > 0 ? "Infinity" : "-Infinity");
      // "-0" would be read back as an integer, which has no negative zero.
      if (value == 0 && std::signbit(value)) return void(out += "-0.0");
    }
    char text[32];
    out.append(text, std::to_chars(text, text + sizeof text, value).ptr);
  }
}

Result<void> write_bytes(const Tensor& t, std::string& out) {
  for (const std::string_view e : bytes_elements(t.data)) {
    if (!simdjson::validate_utf8(e.data(), e.size()))
      return Error{ErrorKind::kInvalid, "output '" + t.name +
                                            "' holds bytes that are no text, which JSON cannot "
                                            "carry: ask for it with binary_data"};
    write_json_text(e, out);
    out += ',';
  }
  return {};
}

template <class T>
void write_numbers(const Tensor& t, std::string& out) {
  for (size_t at = 0; at + sizeof(T) <= t.data.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, t.data.data() + at, sizeof(T));
    write_element(value, out);
    out += ',';
  }
}

}  // namespace

Result<void> read_json_data(element data, Tensor& tensor) {
  simdjson::dom::array elements;
  if (data.get(elements) != simdjson::SUCCESS) return at_element(tensor, "must be an array");
  SLUICE_ASSIGN(count, element_count(tensor.shape));
  Result<void> outcome;
  const bool possible = with_json_type(tensor.datatype, [&](auto type) {
    Reader<decltype(type)> reader(tensor);
    outcome = reader.read(elements, depth_of(data), count);
  });
  if (!possible)
    return at_element(tensor, std::string(to_string(tensor.datatype)) +
                                  " has no form in JSON: send it as binary data");
  return outcome;
}

Result<void> write_json_data(const Tensor& tensor, std::string& out) {
  out += '[';
  const size_t begin = out.size();
  Result<void> outcome;
  const bool possible = with_json_type(tensor.datatype, [&](auto type) {
    using T = decltype(type);
    if constexpr (std::is_same_v<T, std::string_view>)
      outcome = write_bytes(tensor, out);
    else
      write_numbers<T>(tensor, out);
  });
  if (!possible)
    return Error{ErrorKind::kInvalid, "output '" + tensor.name + "' is " +
                                          std::string(to_string(tensor.datatype)) +
                                          ", which JSON cannot carry: ask for it with binary_data"};
  if (!outcome.ok()) return outcome;
  if (out.size() > begin) out.pop_back();  // the last comma
  out += ']';
  return {};
}

std::optional<std::string> mark_non_finite(std::string_view json) {
  return wire::wrap_non_finite(json, "{\"", "\":0}");
}

std::optional<std::string> widen_integers(std::string_view json) {
  std::string out;
  size_t kept = 0;  // of `json`, in `out`
  for (size_t at = 0; at < json.size();) {
    if (json[at] == '"') {
      for (++at; at < json.size() && json[at] != '"'; ++at) at += json[at] == '\\';
      ++at;
      continue;
    }
    const size_t end = std::min(json.find_first_not_of("+-.0123456789eE", at), json.size());
    const std::string_view number = json.substr(at, end - at);
    const bool integer = number.find_first_of("+.eE") == number.npos;
    if (integer && number.size() > 18 && !fits_in_64_bits(number)) {
      out.append(json.substr(kept, end - kept)).append(".0");
      kept = end;
    }
    at = std::max(end, at + 1);
  }
  if (out.empty()) return std::nullopt;
  return out.append(json.substr(std::min(kept, json.size())));
}

void write_json_text(std::string_view text, std::string& out) {
  out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace sluice::runtime
