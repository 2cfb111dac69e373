#include "control/spec/triton_config.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <memory>
#include <optional>

#include "wire/json/model_description.h"

namespace sluice::control {
namespace {

constexpr int kDeepestMessage = 16;
constexpr int kMostTritonBatch = 256;

Error invalid(int line, const std::string& why) {
  return {ErrorKind::kInvalid, "line " + std::to_string(line) + ": " + why};
}

struct Message;

// A field's value: a word, number or text; or a message.
struct Value {
  std::string name;
  int line = 0;
  std::string text;
  std::shared_ptr<Message> message;  // null: a scalar
};

struct Message {
  std::vector<Value> fields;  // in the file's order; of a repeated field, one each

  const Value* find(std::string_view name) const {
    const auto found = std::ranges::find(fields, name, &Value::name);
    return found == fields.end() ? nullptr : &*found;
  }
  std::string text(std::string_view name) const {
    const Value* value = find(name);
    return value == nullptr ? "" : value->text;
  }
};

// The text format's tokens: words, quoted texts, and the signs { } [ ] : < >.
class Tokens {
 public:
  explicit Tokens(std::string_view text) : text_(text) {}

  int line() const { return line_; }
  bool is_quoted() const { return quoted_; }

  // The next token; empty and not quoted: the end.
  Result<std::string> next() {
    skip();
    quoted_ = false;
    if (at_ == text_.size()) return std::string();
    const char c = text_[at_];
    if (c == '"' || c == '\'') return quoted(c);
    if (is_word(c)) {
      const size_t begin = at_;
      while (at_ < text_.size() && is_word(text_[at_])) ++at_;
      return std::string(text_.substr(begin, at_ - begin));
    }
    if (std::string_view("{}[]:<>").find(c) == std::string_view::npos)
      return invalid(line_, "a character that does not belong there");
    ++at_;
    return std::string(1, c);
  }
  Result<std::string> peek() {
    const Tokens before = *this;
    auto token = next();
    const bool was_quoted = quoted_;
    *this = before;
    quoted_ = was_quoted;
    return token;
  }

 private:
  static bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.' ||
           c == '+' || c == '/';
  }
  // Blanks, comments, and the separators that the format allows between fields.
  void skip() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '#')
        while (at_ + 1 < text_.size() && text_[at_ + 1] != '\n') ++at_;
      else if (c == '\n')
        ++line_;
      else if (c != ' ' && c != '\t' && c != '\r' && c != ',' && c != ';')
        return;
    }
  }
  Result<std::string> quoted(char end) {
    std::string out;
    for (++at_; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
      if (text_[at_] == end) {
        ++at_;
        quoted_ = true;
        return out;
      }
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      out += text_[at_];
    }
    return invalid(line_, "a text without its end");
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  bool quoted_ = false;
};

Result<Message> read_message(Tokens& tokens, const std::string& end, int depth);

// One value of a field: a scalar, or { … }.
Result<Value> read_value(Tokens& tokens, const std::string& name, int depth) {
  Value value{.name = name, .line = tokens.line(), .text = "", .message = nullptr};
  SLUICE_ASSIGN(token, tokens.next());
  value.line = tokens.line();
  if (!tokens.is_quoted() && (token == "{" || token == "<")) {
    SLUICE_ASSIGN(inner, read_message(tokens, token == "{" ? "}" : ">", depth + 1));
    value.message = std::make_shared<Message>(std::move(inner));
    return value;
  }
  if (!tokens.is_quoted() &&
      (token.empty() || std::string_view("}]:>[").find(token) != std::string_view::npos))
    return invalid(tokens.line(), name + ": has no value");
  value.text = std::move(token);
  return value;
}

// Reads fields until `end`: NAME: VALUE, NAME: [VALUE, …], NAME {…}, NAME [{…}, …].
Result<Message> read_message(Tokens& tokens, const std::string& end, int depth) {
  if (depth > kDeepestMessage) return invalid(tokens.line(), "is nested too deep");
  Message out;
  while (true) {
    SLUICE_ASSIGN(name, tokens.next());
    if (!tokens.is_quoted() && name == end) return out;
    if (name.empty()) return invalid(tokens.line(), "ends before its last }");
    if (tokens.is_quoted() || std::string_view("{}[]:<>").find(name) != std::string_view::npos)
      return invalid(tokens.line(), "\"" + name + "\" is no field's name");
    SLUICE_ASSIGN(sign, tokens.peek());
    if (!tokens.is_quoted() && sign == ":") SLUICE_TRY(tokens.next());
    SLUICE_ASSIGN(first, tokens.peek());
    if (tokens.is_quoted() || first != "[") {
      SLUICE_ASSIGN(value, read_value(tokens, name, depth));
      out.fields.push_back(std::move(value));
      continue;
    }
    SLUICE_TRY(tokens.next());
    while (true) {
      SLUICE_ASSIGN(next, tokens.peek());
      if (!tokens.is_quoted() && next == "]") break;
      SLUICE_ASSIGN(value, read_value(tokens, name, depth));
      out.fields.push_back(std::move(value));
    }
    SLUICE_TRY(tokens.next());
  }
}

std::optional<int64_t> number(const std::string& text) {
  int64_t n = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

// "TYPE_FP32" is the protocol's "FP32"; a TYPE_STRING is its BYTES.
std::string datatype(const std::string& type) {
  if (type == "TYPE_STRING") return "BYTES";
  return type.starts_with("TYPE_") ? type.substr(5) : type;
}

Result<TensorSpec> tensor(const Value& field, int max_batch) {
  if (field.message == nullptr) return invalid(field.line, field.name + ": must be {…}");
  const Message& m = *field.message;
  TensorSpec t{.name = m.text("name"), .datatype = datatype(m.text("data_type")), .shape = {}};
  if (m.find("reshape") != nullptr)
    return invalid(field.line, field.name + ".reshape: is not served");
  if (max_batch > 0) t.shape.push_back(-1);
  for (const Value& v : m.fields) {
    if (v.name != "dims") continue;
    const auto n = number(v.text);
    if (!n) return invalid(v.line, field.name + ".dims: \"" + v.text + "\" is no whole number");
    t.shape.push_back(*n);
  }
  std::string all;
  for (const auto& [what, why] : wire::tensor_problems(t, wire::kTorchscript))
    all += (all.empty() ? "" : "; ") + field.name + "." + what + ": " + why;
  if (!all.empty()) return invalid(field.line, all);
  return t;
}

Result<std::vector<TensorSpec>> tensors(const Message& config, std::string_view name,
                                        int max_batch) {
  std::vector<TensorSpec> all;
  for (const Value& v : config.fields) {
    if (v.name != name) continue;
    SLUICE_ASSIGN(t, tensor(v, max_batch));
    if (std::ranges::find(all, t.name, &TensorSpec::name) != all.end())
      return invalid(v.line, std::string(name) + ": \"" + t.name + "\" stands twice");
    all.push_back(std::move(t));
  }
  if (all.empty())
    return Error{ErrorKind::kInvalid, std::string(name) + ": is missing: {name, data_type, dims}"};
  return all;
}

Result<void> check_backend(const Message& config) {
  const std::string backend = config.text("backend"), platform = config.text("platform");
  if (!backend.empty() && backend != "pytorch")
    return invalid(config.find("backend")->line,
                   "backend: \"" + backend + "\" is not served: pytorch is");
  if (!platform.empty() && platform != "pytorch_libtorch")
    return invalid(config.find("platform")->line,
                   "platform: \"" + platform + "\" is not served: pytorch_libtorch is");
  return {};
}

Result<std::vector<int64_t>> versions(const Message& config) {
  std::vector<int64_t> all;
  const Value* policy = config.find("version_policy");
  if (policy == nullptr || policy->message == nullptr) return all;
  const Value* specific = policy->message->find("specific");
  if (specific == nullptr || specific->message == nullptr) return all;
  for (const Value& v : specific->message->fields) {
    const auto n = v.name == "versions" ? number(v.text) : std::nullopt;
    if (!n || *n < 1)
      return invalid(v.line,
                     "version_policy.specific.versions: \"" + v.text + "\" is no number from 1 up");
    all.push_back(*n);
  }
  return all;
}

}  // namespace

Result<TritonConfig> triton_config(std::string_view text) {
  Tokens tokens(text);
  SLUICE_ASSIGN(config, read_message(tokens, "", 0));
  SLUICE_TRY(check_backend(config));
  TritonConfig out;
  if (const Value* most = config.find("max_batch_size"); most != nullptr) {
    const auto n = number(most->text);
    if (!n || *n < 0 || *n > kMostTritonBatch)
      return invalid(most->line, "max_batch_size: \"" + most->text + "\" is not from 0 to " +
                                     std::to_string(kMostTritonBatch));
    out.max_batch = static_cast<int>(*n);
  }
  if (const std::string file = config.text("default_model_filename"); !file.empty()) {
    if (file.find('/') != file.npos || file == "." || file == "..")
      return invalid(config.find("default_model_filename")->line,
                     "default_model_filename: \"" + file + "\" is no file of a version's folder");
    out.file = file;
  }
  SLUICE_ASSIGN(inputs, tensors(config, "input", out.max_batch));
  SLUICE_ASSIGN(outputs, tensors(config, "output", out.max_batch));
  SLUICE_ASSIGN(served, versions(config));
  out.inputs = std::move(inputs);
  out.outputs = std::move(outputs);
  out.versions = std::move(served);
  return out;
}

}  // namespace sluice::control
