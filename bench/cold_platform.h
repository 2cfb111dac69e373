// A whole platform with one function at a time, on a device of its own, for benchmarks of starts:
// from the moment of the loop's decision to start an instance to the last byte of its first answer
// through the gateway. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "wire/http/http.h"

namespace sluice::bench {

// Starts a program with its output in a log.
pid_t run(std::vector<std::string> words, const std::string& log);
// Ends it by SIGTERM, and waits.
void end(pid_t pid);

struct Start {
  double ms = 0;
  std::string answer;
};

class ColdPlatform {
 public:
  using Ask = std::function<Result<std::string>(wire::HttpClient& gateway)>;

  // `folder` is to have its data and its log.
  ColdPlatform(const std::string& sluice, const std::string& runtime, const std::string& folder);
  ~ColdPlatform();
  ColdPlatform(const ColdPlatform&) = delete;

  Result<void> wait_until_up();
  // Applies a function that is not there yet: `spec` is a mapping in YAML. Its first start has no
  // template.
  Result<Start> deploy(const std::string& name, const std::string& spec, const Ask& ask);
  // Kills its only instance: the next request waits for another one.
  Result<Start> start_again(const std::string& name, const Ask& ask);
  // Deletes it, and waits until its instances are gone.
  Result<void> remove(const std::string& name);

 private:
  Result<Start> first_after_start(const std::string& name, const Ask& ask);
  Result<void> until(const std::function<bool()>& done);

  const std::string data_;
  wire::HttpClient api_{{.path = data_ + "/run/api.sock"}, Seconds(60)};
  pid_t pid_ = 0;
  std::map<std::string, UnixMillis> last_start_;  // of each function
};

}  // namespace sluice::bench
