#include "cli/payload.h"

#include <cstring>

#include "base/random.h"

namespace sluice::cli {
namespace {

constexpr int64_t kVariable = 16;

template <class T>
void append(std::string& out, T value) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  out.append(raw, sizeof(T));
}

// Small values: token ids stay within every vocabulary, pixels about 0.
double made_up(const std::string& type, Random& random) {
  if (type == "FP32" || type == "FP64") return random.uniform() * 2 - 1;
  return static_cast<double>(random.below(type == "BOOL"           ? 2
                                          : type.ends_with("INT8") ? 100
                                                                   : 1000));
}

bool append_value(std::string& out, const std::string& type, double value) {
  if (type == "FP32")
    append(out, static_cast<float>(value));
  else if (type == "FP64")
    append(out, value);
  else if (type == "INT64")
    append(out, static_cast<int64_t>(value));
  else if (type == "INT32")
    append(out, static_cast<int32_t>(value));
  else if (type == "INT16")
    append(out, static_cast<int16_t>(value));
  else if (type == "INT8")
    append(out, static_cast<int8_t>(value));
  else if (type == "UINT8" || type == "BOOL")
    append(out, static_cast<uint8_t>(value));
  else
    return false;
  return true;
}

}  // namespace

Result<Payload> make_payload(const nlohmann::json& inputs, int batch, uint64_t seed, bool values) {
  Random random(seed);
  nlohmann::json head{{"inputs", nlohmann::json::array()},
                      {"parameters", {{"binary_data_output", !values}}}};
  std::string data;
  for (const auto& input : inputs) {
    const std::string type = input.value("datatype", "");
    std::vector<int64_t> shape = input.value("shape", std::vector<int64_t>{});
    const auto sizes = input.value("sizes", std::vector<int64_t>{});
    const auto sample = input.value("sample", std::vector<double>{});
    int64_t count = 1;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] < 0) shape[i] = i == 0 ? batch : i < sizes.size() ? sizes[i] : kVariable;
      count *= shape[i];
    }
    const size_t before = data.size();
    for (int64_t i = 0; i < count; ++i)
      if (!append_value(data, type,
                        sample.empty() ? made_up(type, random)
                                       : sample[static_cast<size_t>(i) % sample.size()]))
        return Error{ErrorKind::kInvalid, "input " + input.value("name", "?") + ": datatype " +
                                              type + " cannot be made up; give --body"};
    head["inputs"].push_back({{"name", input.value("name", "")},
                              {"datatype", type},
                              {"shape", shape},
                              {"parameters", {{"binary_data_size", data.size() - before}}}});
  }
  Payload p{.body = head.dump()};
  p.json_bytes = p.body.size();
  p.body += data;
  return p;
}

}  // namespace sluice::cli
