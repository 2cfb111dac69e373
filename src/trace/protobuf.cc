#include "trace/protobuf.h"

#include <cstring>

namespace sluice::trace {

std::optional<uint64_t> Protobuf::varint(std::string_view& from) {
  constexpr size_t kLongest = 10;
  uint64_t value = 0;
  for (size_t i = 0; i < from.size() && i < kLongest; ++i) {
    const auto byte = static_cast<unsigned char>(from[i]);
    value |= static_cast<uint64_t>(byte & 0x7fU) << (7 * i);
    if ((byte & 0x80U) != 0) continue;
    from.remove_prefix(i + 1);
    return value;
  }
  return std::nullopt;
}

std::optional<ProtobufField> Protobuf::fail() {
  broken_ = true;
  rest_ = {};
  return std::nullopt;
}

std::optional<ProtobufField> Protobuf::next() {
  enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  if (rest_.empty()) return std::nullopt;
  const auto tag = varint(rest_);
  if (!tag || *tag >> 3 == 0 || *tag >> 3 > 0x1fffffffU) return fail();
  ProtobufField field;
  field.number = static_cast<uint32_t>(*tag >> 3);
  const uint64_t type = *tag & 7U;
  if (type == kVarint) {
    const auto value = varint(rest_);
    if (!value) return fail();
    field.value = *value;
  } else if (type == kBytes) {
    const auto size = varint(rest_);
    if (!size || *size > rest_.size()) return fail();
    field.bytes = rest_.substr(0, *size);
    field.has_bytes = true;
    rest_.remove_prefix(*size);
  } else if (type == kFixed64 || type == kFixed32) {
    const size_t size = type == kFixed64 ? 8 : 4;
    if (rest_.size() < size) return fail();
    std::memcpy(&field.value, rest_.data(), size);
    rest_.remove_prefix(size);
  } else {
    return fail();
  }
  return field;
}

}  // namespace sluice::trace
