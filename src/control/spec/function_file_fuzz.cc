// Any bytes are functions that can be written and read again, or a fault with a message.
#include <cstdint>
#include <cstdlib>

#include "control/spec/function_file.h"
#include "control/spec/function_text.h"
#include "model/server_kind.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  const auto known = [](ModelSpec& model) -> Result<void> {
    (void)kind_of(model);
    return {};
  };
  const auto specs =
      control::parse_functions({reinterpret_cast<const char*>(data), size}, {.file = "f"}, known);
  if (!specs.ok()) return specs.error().message.empty() ? std::abort(), 0 : 0;
  for (const FunctionSpec& spec : *specs) {
    const auto again = control::parse_functions(control::to_yaml(spec), {});
    if (!again.ok() || again->size() != 1 || again->front() != spec) std::abort();
  }
  return 0;
}
