// One model behind the Open Inference Protocol: health, metadata, inference, and Triton's
// repository, configuration and statistics. A response header `Sluice-Inferences` gives the
// request's number of inferences.
//
// Threads: belongs to the thread of its io_context; the model runs on the runner's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/model_documents.h"
#include "runtime/runner.h"
#include "wire/http/http.h"

namespace sluice::runtime {

// Tensors are larger than the control plane's messages; the gateway bounds their size and how many
// come at once.
inline constexpr wire::HttpLimits kTensorLimits{.body_bytes = 1 << 30,
                                                .connections = 4096,
                                                .memory_bytes = SIZE_MAX,
                                                .request = Seconds(60),
                                                .answer = Seconds(60)};

class ModelServer {
 public:
  // Serves at once on `listening` (which accepts already). `runner` and `statistics` outlive it.
  ModelServer(wire::asio::io_context& io, Fd listening, ServedModel model, Runner& runner,
              const Statistics& statistics, wire::HttpLimits limits = kTensorLimits);

  // Once: becomes unready, answers every accepted request, then calls `drained` on the io_context.
  void drain(std::function<void()> drained);

 private:
  using Path = std::vector<std::string>;
  using Response = wire::HttpResponse;

  wire::asio::awaitable<Response> handle(wire::HttpRequest request);
  wire::asio::awaitable<Response> route(const wire::HttpRequest& request, const Path& path);
  wire::asio::awaitable<Response> infer(const wire::HttpRequest& request);
  Response about_model(const wire::HttpRequest& request, const std::string& what);
  Response repository(const wire::HttpRequest& request, const Path& path);
  bool is_ready() const { return loaded_ && !draining_; }

  wire::asio::io_context& io_;
  const ServedModel model_;
  Runner& runner_;
  const Statistics& statistics_;
  const size_t body_bytes_;  // of a request, inflated
  bool loaded_ = true;       // changed by load and unload of the repository
  bool draining_ = false;
  wire::HttpServer http_;
};

}  // namespace sluice::runtime
