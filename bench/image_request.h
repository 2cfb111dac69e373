// One image of noise as a raw binary inference request, and its answer's tensor: for benchmarks of
// the convolutional demonstration models.
#pragma once

#include <cstring>
#include <string>

#include "wire/http/http.h"

namespace sluice::bench {

inline wire::HttpRequest image_request(const std::string& model) {
  std::string image(size_t{3} * 224 * 224 * 4, '\0');
  for (size_t i = 0; i < image.size(); i += 4) {
    const float value = static_cast<float>(i * 2654435761 % 1000) / 500.f - 1;
    std::memcpy(image.data() + i, &value, 4);
  }
  wire::HttpRequest request{wire::http::verb::post, "/v2/models/" + model + "/infer", 11};
  request.set("Inference-Header-Content-Length", "0");
  request.body() = std::move(image);
  return request;
}

// Returns the bytes of the answer's tensors.
inline Result<std::string> infer(wire::HttpClient& client, const std::string& model) {
  SLUICE_ASSIGN(response, client.send(image_request(model)));
  if (response.result_int() != 200) return Error{ErrorKind::kInternal, response.body()};
  return response.body().substr(
      std::stoul(std::string(response["Inference-Header-Content-Length"])));
}

}  // namespace sluice::bench
