// One gateway process with two instances of known capacity: each answers one request after the
// other, in a fixed time, with its body's checksum. Overload and attacks run on it. Only for tests
// and benchmarks; one thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace sluice::bench {

inline constexpr Nanos kObjective = Millis(500);

// Gives this process as many descriptors as it can have; returns their number.
int raise_descriptors();
int descriptors_of_programs();  // that the programs below may have

// Starts a program with the limits that the benchmark had at first; it dies with the benchmark.
pid_t start_program(std::vector<std::string> words, const std::string& log);
void end_program(pid_t pid);  // SIGTERM, then waits

// Returns the peak resident memory of a process, in MiB; 0 if there is no such process.
double peak_rss_mib(pid_t pid);
Nanos cpu_time(pid_t pid);
// Returns the path of the program beside this one.
std::string beside_us(const std::string& name);

class GatewayBed {
 public:
  // `program` is the gateway with its command: {"…/sluice", "gateway"}.
  GatewayBed(std::vector<std::string> program, Nanos service);
  ~GatewayBed();
  GatewayBed(const GatewayBed&) = delete;

  Result<void> ready();  // waits until the gateway has its routes
  uint16_t port() const { return port_; }
  pid_t gateway() const { return gateway_; }
  double capacity() const { return 2 / seconds(service_); }  // requests a second
  Result<uint64_t> inferences() const;                       // that the gateway has counted
  std::string log() const { return folder_ + "/gateway.log"; }

  static constexpr const char* kInfer = "/v2/models/simple/infer";

 private:
  void serve_instances();

  const Nanos service_;
  std::string folder_;
  uint16_t port_ = 0;
  pid_t instances_ = 0, gateway_ = 0;
};

}  // namespace sluice::bench
