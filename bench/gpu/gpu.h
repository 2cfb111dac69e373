// The first GPU of the machine, for the programs of this folder: its primary context, and kernels
// of one block that take a known time. Driver API alone, from cuda.h. The same programs run on the
// emulated driver, which shows that they run and measures nothing.
//
// A call that fails ends the program, with the call and the driver's error. Not thread-safe.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bench/timing.h"

namespace sluice::bench {

#define GPU_CHECK(call) ::sluice::bench::check((call), #call)
void check(CUresult result, const char* call);
std::string word_for(CUresult result);

class Gpu {
 public:
  Gpu();
  CUdevice device() const { return device_; }
  std::string name() const;
  unsigned sms() const;

  // Returns a kernel of a module's text.
  static CUfunction load(const std::string& module_text, const char* name);
  // Returns a kernel that reads the device's clock until so much has passed; 0: returns at once.
  CUfunction kernel(uint64_t ns);
  void launch(CUfunction kernel, CUstream stream = nullptr) const;
  static CUstream stream();
  static CUevent event(unsigned flags = CU_EVENT_DEFAULT);

 private:
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
};

// Returns the value below which a part p of the values lies; 0 if there are none.
double percentile(std::vector<double> values, double p);

}  // namespace sluice::bench
