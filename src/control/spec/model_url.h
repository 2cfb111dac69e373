// The URL of a model that the platform fetches: http://host[:port]/path/NAME.pt or https://. Plain
// values; pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice::control {

struct ModelUrl {
  bool tls = false;
  std::string host;  // without the brackets of an IPv6 address
  uint16_t port = 0;
  std::string target;  // path and query, as a request has it
};

// Whether it has one of these schemes; it may still be none that parses.
bool is_url(std::string_view path);
// Returns kInvalid with what it lacks. A user or a password in it is refused: files are shown.
Result<ModelUrl> parse_model_url(const std::string& text);

// Returns the URL of the file that describes the model: NAME.json for NAME.pt.
std::string sidecar_url(const std::string& url);
// Returns where a redirect leads. Returns kInvalid for another scheme.
Result<std::string> redirected(const std::string& url, const std::string& location);

}  // namespace sluice::control
