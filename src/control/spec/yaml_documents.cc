#include "control/spec/yaml_documents.h"

#include <yaml-cpp/eventhandler.h>

#include <cstdint>
#include <sstream>

namespace sluice::control {
namespace {

constexpr size_t kLongest = 1 << 20;
constexpr int kDeepest = 32;

// Returns the length of the first character, if YAML calls it printable, or it is a tab or the end
// of a line; 0 if not, or for invalid UTF-8.
size_t printable(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80)
    return (byte(0) >= 0x20 && byte(0) != 0x7f) || text[0] == '\t' || text[0] == '\n' ? 1 : 0;
  const size_t length = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < length) return 0;
  uint32_t code = byte(0) & (0x7f >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0xa0, 0x800, 0x10000};  // a shorter encoding is no UTF-8
  const bool none = code < kLeast[length] || (code >= 0xd800 && code < 0xe000) ||
                    (code & 0xfffe) == 0xfffe || code == 0xfeff || code > 0x10ffff;
  return none ? 0 : length;
}

bool is_text(std::string_view text) {
  while (!text.empty()) {
    const size_t length = printable(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// Receives the parser's events before any node is made of them.
class Sentry : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    // yaml-cpp 0.7 does not consume a stray "," or "]" and finds an empty document there, forever.
    if (mark.pos <= last_start_) refuse(mark, "nothing can start with this character");
    last_start_ = mark.pos;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { plain(mark, anchor); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse(mark, kNoAnchors); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                const std::string& value) override {
    plain(mark, anchor);
    if (!is_text(value)) refuse(mark, "text must be UTF-8 without control characters");
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    down(mark, anchor);
  }
  void OnSequenceEnd() override { --depth_; }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    down(mark, anchor);
  }
  void OnMapEnd() override { --depth_; }

 private:
  static constexpr const char* kNoAnchors = "anchors (&) and aliases (*) are not allowed";

  [[noreturn]] static void refuse(const YAML::Mark& mark, const std::string& why) {
    throw YAML::ParserException(mark, why);
  }
  static void plain(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) refuse(mark, kNoAnchors);
  }
  void down(const YAML::Mark& mark, YAML::anchor_t anchor) {
    plain(mark, anchor);
    if (++depth_ > kDeepest)
      refuse(mark, "nested deeper than " + std::to_string(kDeepest) + " mappings and lists");
  }

  int last_start_ = -1;
  int depth_ = 0;
};

}  // namespace

Result<std::vector<YAML::Node>> yaml_documents(std::string_view text, const std::string& file) {
  if (text.size() > kLongest)
    return Error{ErrorKind::kInvalid, file + ": " + std::to_string(text.size()) +
                                          " bytes; at most " + std::to_string(kLongest) +
                                          " are read"};
  try {
    std::istringstream in{std::string(text)};
    YAML::Parser parser(in);
    for (Sentry sentry; parser.HandleNextDocument(sentry);) {
    }
    return YAML::LoadAll(std::string(text));
  } catch (const YAML::Exception& e) {
    return Error{ErrorKind::kInvalid, file + ":" + std::to_string(e.mark.line + 1) + " " + e.msg};
  }
}

}  // namespace sluice::control
