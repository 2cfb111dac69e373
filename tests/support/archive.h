// The smallest archive that passes for a TorchScript model until it is loaded: one stored file.
// For tests only.
#pragma once

#include <fstream>
#include <string>

namespace sluice::control {

inline std::string archive_of(const std::string& content,
                              const std::string& name = "model/constants.pkl") {
  const auto number = [](size_t n, int bytes) {
    std::string out;
    for (; bytes > 0; --bytes, n >>= 8) out += static_cast<char>(n & 0xff);
    return out;
  };
  // No checksum: no reader here checks it.
  const std::string sizes = number(0, 4) + number(content.size(), 4) + number(content.size(), 4) +
                            number(name.size(), 2) + number(0, 2);
  const std::string file = "PK\3\4" + number(20, 2) + std::string(8, '\0') + sizes + name + content;
  const std::string directory = "PK\1\2" + number(20, 2) + number(20, 2) + std::string(8, '\0') +
                                sizes + std::string(14, '\0') + name;
  return file + directory + "PK\5\6" + std::string(4, '\0') + number(1, 2) + number(1, 2) +
         number(directory.size(), 4) + number(file.size(), 4) + number(0, 2);
}

// Writes such a model, PATH.pt, of two numbers to two numbers, with PATH.json.
inline void write_model(const std::string& path) {
  std::ofstream(path + ".pt") << archive_of("weights");
  std::ofstream(path + ".json") << R"({"inputs":[{"name":"x","datatype":"FP32","shape":[-1,2]}],)"
                                << R"("outputs":[{"name":"y","datatype":"FP32","shape":[-1,2]}]})";
}

}  // namespace sluice::control
