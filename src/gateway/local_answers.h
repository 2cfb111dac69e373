// The gateway's own answers: health, the server's metadata, the list of functions, metrics.
// Thread-safe: const, over the dispatcher.
#pragma once

#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/dispatcher.h"

namespace sluice::gateway {

struct LocalAnswer {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::string allow;  // with 405
};

LocalAnswer as_json(const nlohmann::json& body, int status = 200);

class LocalAnswers {
 public:
  // `strict_readiness`: the server is ready only while all functions are.
  LocalAnswers(Dispatcher& dispatcher, std::string version, bool strict_readiness = false)
      : dispatcher_(dispatcher),
        version_(std::move(version)),
        strict_readiness_(strict_readiness) {}

  // Health, for probes. Other answers list functions, which is not for strangers.
  static bool is_public(std::string_view target);
  // Returns whether the body is part of the question.
  static bool reads_body(std::string_view target);
  // Returns nothing if the path belongs to a function.
  std::optional<LocalAnswer> answer(std::string_view method, std::string_view target, Time now,
                                    std::string_view body = "") const;
  // Of an existing function, summed over its instances, including ended ones. Revision 0: of each
  // revision with traffic.
  LocalAnswer function_statistics(std::string_view method, std::string_view served, int revision,
                                  Time now) const;

 private:
  LocalAnswer readiness() const;
  nlohmann::json statistics(Time now, std::string_view served, int revision) const;
  std::string metrics(Time now) const;
  std::string make_metrics(Time now) const;
  Dispatcher& dispatcher_;
  const std::string version_;
  const bool strict_readiness_;
  mutable std::mutex mutex_;  // guards the two below: the last answers, kept for a moment
  mutable std::string metrics_;
  mutable Time made_{};
};

}  // namespace sluice::gateway
