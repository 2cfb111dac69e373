// Any bytes are either an ONNX model whose graph's edges go forward, or an error with a message.
#include <cstdint>
#include <cstdlib>

#include "trace/onnx_graph.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  const auto model = trace::onnx_model_from({reinterpret_cast<const char*>(data), size},
                                            1 + static_cast<int>(size % 8));
  if (!model.ok()) {
    if (model.error().message.empty()) std::abort();
    return 0;
  }
  int index = 0;
  for (const Operator& o : model->graph.operators) {
    if (o.macs < 0 || o.parameters < 0) std::abort();
    for (const int from : o.from)
      if (from < 0 || from >= index) std::abort();
    ++index;
  }
  return 0;
}
