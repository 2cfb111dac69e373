#include "wire/json/model_description.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "wire/json/json.h"

namespace sluice::wire {
namespace {

using nlohmann::json;

// libtorch 1.13 has neither the wider unsigned integers nor text.
constexpr std::string_view kDatatypes[] = {"BOOL",   "UINT8",  "INT8",   "INT16", "INT32",
                                           "INT64",  "FP16",   "BF16",   "FP32",  "FP64",
                                           "UINT16", "UINT32", "UINT64", "BYTES"};
constexpr size_t kOfTorchscript = 10;

std::string joined(const std::vector<std::string_view>& words) {
  std::string out;
  for (const std::string_view w : words) out += (out.empty() ? "" : ", ") + std::string(w);
  return out;
}

// Returns the value of a text field; nullptr if it is missing or something else.
const std::string* text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : found->get_ptr<const std::string*>();
}

// Returns whether it is a list of integers.
bool read_shape(const json& tensor, const char* key, std::vector<int64_t>& shape) {
  const auto found = tensor.find(key);
  if (found == tensor.end() || !found->is_array()) return false;
  if (!std::ranges::all_of(*found, [](const json& d) { return d.is_number_integer(); }))
    return false;
  shape = found->get<std::vector<int64_t>>();
  return true;
}

// Returns whether it is a number or a list of numbers.
bool read_sample(const json& tensor, std::vector<double>& sample) {
  const json& value = tensor["sample"];
  const json list = value.is_array() ? value : json::array({value});
  if (!std::ranges::all_of(list, [](const json& v) { return v.is_number(); })) return false;
  sample = list.get<std::vector<double>>();
  return !sample.empty();
}

// The values that a datatype has, as far as a number of JSON holds them exactly.
struct Values {
  std::string_view datatype;
  double least, most;
};
constexpr double kExact = 9007199254740992;  // 2^53
constexpr Values kWhole[] = {{"BOOL", 0, 1},
                             {"UINT8", 0, 255},
                             {"INT8", -128, 127},
                             {"INT16", -32768, 32767},
                             {"INT32", -2147483648.0, 2147483647},
                             {"INT64", -kExact, kExact}};

std::string problem_of_sample(const TensorSpec& t) {
  constexpr size_t kMostValues = 4096;
  if (t.sample.size() > kMostValues)
    return "has " + std::to_string(t.sample.size()) + " values; at most " +
           std::to_string(kMostValues) + " are allowed, which are repeated";
  const auto* whole = std::ranges::find(kWhole, t.datatype, &Values::datatype);
  if (whole == std::end(kWhole)) return "";
  for (const double v : t.sample)
    if (v != std::floor(v) || v < whole->least || v > whole->most)
      return json(v).dump() + " is no " + t.datatype;
  return "";
}

std::string problem_of_sizes(const TensorSpec& t) {
  if (t.sizes.empty()) return "";
  if (t.sizes.size() != t.shape.size())
    return "has " + std::to_string(t.sizes.size()) + " dimensions, the shape " +
           std::to_string(t.shape.size());
  for (size_t i = 0; i < t.sizes.size(); ++i) {
    const bool fits =
        t.shape[i] >= 0 ? t.sizes[i] == t.shape[i] : t.sizes[i] > 0 || (i == 0 && t.sizes[i] == -1);
    if (!fits)
      return "the dimension " + std::to_string(t.sizes[i]) + " is no size of " +
             std::to_string(t.shape[i]) + "; of a variable one (-1) it is 1 or more";
  }
  return "";
}

class Reader {
 public:
  explicit Reader(const json& sidecar) : sidecar_(sidecar) {}

  ModelDescription read() {
    ModelDescription d;
    if (!sidecar_.is_object()) {
      complain("", "must be an object with inputs and outputs");
      return d;
    }
    word("name", d.name);
    word("platform", d.platform);
    d.inputs = tensors("inputs", d.platform);
    d.outputs = tensors("outputs", d.platform);
    return d;
  }
  const std::string& problems() const { return problems_; }

 private:
  void complain(const std::string& field, const std::string& why) {
    problems_ += (problems_.empty() ? "" : "; ") + field + (field.empty() ? "" : ": ") + why;
  }

  void word(const char* key, std::string& out) {
    if (!sidecar_.contains(key)) return;
    if (const std::string* text = text_of(sidecar_, key); text != nullptr && !text->empty())
      out = *text;
    else
      complain(key, sidecar_[key].dump() + " is no text; it may be left out");
  }

  std::vector<TensorSpec> tensors(const char* key, const std::string& platform) {
    std::vector<TensorSpec> out;
    const json list = sidecar_.value(key, json());
    if (!list.is_array() || list.empty()) {
      complain(key, "must be a list of {name, datatype, shape}, of one at least");
      return out;
    }
    std::set<std::string> names;
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string place = std::string(key) + "[" + std::to_string(i) + "]";
      out.push_back(tensor(list[i], place, platform));
      if (!out.back().name.empty() && !names.insert(out.back().name).second)
        complain(place + ".name", "\"" + out.back().name + "\" stands twice");
    }
    return out;
  }

  TensorSpec tensor(const json& item, const std::string& place, const std::string& platform) {
    TensorSpec t;
    if (!item.is_object()) return complain(place, "must be {name, datatype, shape}"), t;
    if (const std::string* name = text_of(item, "name")) t.name = *name;
    if (const std::string* datatype = text_of(item, "datatype")) t.datatype = *datatype;
    if (!read_shape(item, "shape", t.shape))
      complain(place + ".shape", "must be a list of whole numbers, such as [-1, 3]");
    if (item.contains("sizes") && !read_shape(item, "sizes", t.sizes))
      complain(place + ".sizes", "must be a list of whole numbers, such as [1, 3]");
    if (item.contains("sample") && !read_sample(item, t.sample))
      complain(place + ".sample", "must be a number or a list of numbers");
    for (const auto& [field, why] : tensor_problems(t, platform))
      complain(place + "." + field, why);
    return t;
  }

  const json& sidecar_;
  std::string problems_;
};

}  // namespace

std::vector<std::string_view> datatypes_of(std::string_view platform) {
  const std::span all(kDatatypes);
  const auto some = platform == kTorchscript ? all.first(kOfTorchscript) : all;
  return {some.begin(), some.end()};
}

FieldProblems tensor_problems(const TensorSpec& t, std::string_view platform) {
  FieldProblems out;
  if (t.name.empty()) out.emplace_back("name", "is missing: the tensor's name");
  const std::vector<std::string_view> allowed = datatypes_of(platform);
  if (std::ranges::find(allowed, t.datatype) == allowed.end())
    out.emplace_back("datatype",
                     (t.datatype.empty() ? "is missing" : "\"" + t.datatype + "\" is not known") +
                         "; allowed are " + joined(allowed));
  for (const int64_t d : t.shape)
    if (d < -1 || d == 0) {
      out.emplace_back("shape", "the dimension " + std::to_string(d) +
                                    " is neither -1 (variable) nor 1 or more");
      break;
    }
  if (const std::string why = problem_of_sizes(t); !why.empty()) out.emplace_back("sizes", why);
  if (const std::string why = problem_of_sample(t); !why.empty()) out.emplace_back("sample", why);
  return out;
}

Result<ModelDescription> model_description_from(const json& sidecar) {
  Reader reader(sidecar);
  ModelDescription d = reader.read();
  if (!reader.problems().empty()) return Error{ErrorKind::kInvalid, reader.problems()};
  return d;
}

}  // namespace sluice::wire
