// The fields of a protobuf message, in their order, without its schema. Values are views of the
// message.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::trace {

struct ProtobufField {
  uint32_t number = 0;
  uint64_t value = 0;      // of a varint or a fixed number
  std::string_view bytes;  // of a text, a message, or packed numbers
  bool has_bytes = false;
};

class Protobuf {
 public:
  explicit Protobuf(std::string_view message) : rest_(message) {}

  // Returns the next field; nothing at the end, or where the message is broken (see broken()).
  std::optional<ProtobufField> next();
  bool broken() const { return broken_; }

  // Takes one varint off the front of packed numbers; nothing at their end.
  static std::optional<uint64_t> varint(std::string_view& from);

 private:
  std::optional<ProtobufField> fail();

  std::string_view rest_;
  bool broken_ = false;
};

}  // namespace sluice::trace
