#include "control/yaml_documents.h"

#include <yaml-cpp/eventhandler.h>

#include <sstream>

namespace sluice::control {
namespace {

constexpr size_t kLongest = 1 << 20;
constexpr int kDeepest = 32;

// Hears what the parser finds before any node is made of it.
class Sentry : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    // yaml-cpp 0.7 leaves a stray "," or "]" where it is and finds an empty document there,
    // forever.
    if (mark.pos <= last_start_) refuse(mark, "nothing can start with this character");
    last_start_ = mark.pos;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { plain(mark, anchor); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse(mark, kNoAnchors); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                const std::string&) override {
    plain(mark, anchor);
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
