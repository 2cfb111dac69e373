// sluice-store: the model store of one memory. Its keeper starts it.
//
//   sluice-store CONTROL_FD BYTES cpu | cuda:N | cuda-legacy:N
//
// CONTROL_FD: where the keeper hands over connections (process.h); BYTES: what the store may hold;
// N: the GPU, in the numbering of CUDA_VISIBLE_DEVICES. Ends with its keeper and its last user.
#include <charconv>
#include <cstdio>
#include <string_view>

#include "store/memory_cuda.h"
#include "store/process.h"

namespace sluice::node {
namespace {

template <class T>
Result<T> number(std::string_view what, std::string_view text) {
  T value{};
  const auto [end, fault] = std::from_chars(text.begin(), text.end(), value);
  if (fault == std::errc() && end == text.end() && value >= T{}) return value;
  return Error{ErrorKind::kInvalid,
               std::string(what) + ": '" + std::string(text) + "' is not a number from 0 on"};
}

Result<std::unique_ptr<StoreMemory>> memory_called(std::string_view name) {
  if (name == "cpu") return host_memory();
  for (const auto& [prefix, sharing] : {std::pair{"cuda:", CudaSharing::kDescriptors},
                                        std::pair{"cuda-legacy:", CudaSharing::kLegacy}}) {
    if (!name.starts_with(prefix)) continue;
    SLUICE_ASSIGN(device, number<int>("device", name.substr(std::string_view(prefix).size())));
    return cuda_memory(device, sharing);
  }
  return Error{ErrorKind::kInvalid,
               "memory: '" + std::string(name) + "' is not cpu, cuda:N or cuda-legacy:N"};
}

Result<void> run(int argc, char** argv) {
  if (argc != 4)
    return Error{ErrorKind::kInvalid, "sluice-store CONTROL_FD BYTES cpu | cuda:N | cuda-legacy:N"};
  SLUICE_ASSIGN(control, number<int>("control", argv[1]));
  SLUICE_ASSIGN(capacity, number<uint64_t>("bytes", argv[2]));
  SLUICE_ASSIGN(memory, memory_called(argv[3]));
  StoreServer server(std::move(memory), {.capacity = capacity});
  serve_store(server, Fd(control));
  return {};
}

}  // namespace
}  // namespace sluice::node

int main(int argc, char** argv) {
  const auto outcome = sluice::node::run(argc, argv);
  if (outcome.ok()) return 0;
  std::fprintf(stderr, "sluice-store: %s\n", outcome.error().message.c_str());
  return outcome.error().kind == sluice::ErrorKind::kInvalid ? 2 : 1;
}
