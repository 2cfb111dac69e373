#include "bench/gloo_times.h"

#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/hash_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <thread>

#include "base/clock.h"

namespace sluice::bench {
namespace {

constexpr int kRounds = 40;

void sum(const std::shared_ptr<gloo::Context>& context, std::vector<float>& numbers) {
  gloo::AllreduceOptions options(context);
  options.setOutput(numbers.data(), numbers.size());
  options.setReduceFunction(
      static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
  gloo::allreduce(options);
}

std::vector<predict::CollectiveSample> measure(int rank, int ranks, std::span<const size_t> sizes,
                                               gloo::rendezvous::HashStore& store) {
  gloo::transport::tcp::attr at("127.0.0.1");
  auto device = gloo::transport::tcp::CreateDevice(at);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(store, device);
  const SteadyClock clock;
  std::vector<predict::CollectiveSample> out;
  for (int round = 0; round < kRounds; ++round)
    for (size_t i = 0; i < sizes.size(); ++i) {
      std::vector<float> numbers(sizes[i] / sizeof(float), 0);
      const Time begun = clock.now();
      sum(context, numbers);
      const double taken = seconds(clock.now() - begun);
      if (round == 0) out.push_back({ranks, static_cast<double>(sizes[i]), taken});
      out[i].seconds = std::min(out[i].seconds, taken);
    }
  return out;
}

}  // namespace

Result<std::vector<predict::CollectiveSample>> gloo_all_reduces(int ranks,
                                                                std::span<const size_t> bytes) {
  gloo::rendezvous::HashStore store;
  std::vector<std::vector<predict::CollectiveSample>> of_rank(static_cast<size_t>(ranks));
  std::vector<std::string> faults(of_rank.size());
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank, at = static_cast<size_t>(rank)] {
        try {
          of_rank[at] = measure(rank, ranks, bytes, store);
        } catch (const std::exception& e) {
          faults[at] = e.what();
        }
      });
  }
  for (const std::string& fault : faults)
    if (!fault.empty()) return Error{ErrorKind::kUnavailable, "gloo: " + fault};
  return of_rank.front();
}

}  // namespace sluice::bench
