// Fetches a file by HTTP or HTTPS, piece by piece. Follows redirects within the scheme.
//
// Blocks its caller; shares nothing. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "wire/http/tls.h"

namespace sluice::control {

struct DownloadLimits {
  uint64_t bytes = uint64_t{64} << 30;
  Nanos silence = Seconds(30);  // the longest without a byte
  Nanos whole = Seconds(3600);
  int redirects = 5;
};

// Calls `take` with the pieces; its error ends the download. `tls`: for https. Returns kUnavailable
// or kTimeout, with the URL, if the server does not answer or breaks off, and after `stopped`;
// kInvalid if it has no such file, or a larger one.
Result<void> download(const std::string& url, const DownloadLimits& limits,
                      const wire::TlsContext& tls, const std::atomic<bool>& stopped,
                      const std::function<Result<void>(std::string_view piece)>& take);

}  // namespace sluice::control
