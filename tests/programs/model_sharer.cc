// A CUDA program that shares models through its GPU's model store, a line at a time. It answers
// each line with the store's result and, if there is a tensor, its first and its last byte.
//
//   connect SOCKET
//   store NAME VALUE     a tensor of 5 MiB, filled with the letter VALUE where it is to be filled
//   get NAME
//   read                 the last tensor again
#include <iostream>
#include <sstream>
#include <string>

#include "abi/cuda_abi.h"
#include "wire/model_store.h"

namespace {

constexpr uint64_t kBytes = 5 << 20;

sluice_store* store = nullptr;
sluice_tensor* tensor = nullptr;

CUdeviceptr address() {
  return reinterpret_cast<CUdeviceptr>(tensor->data);
}

std::string held() {
  std::string bytes(tensor->bytes, 0);
  if (cuMemcpyDtoH_v2(bytes.data(), address(), bytes.size()) != CUDA_SUCCESS) return "unreadable";
  return {bytes.front(), bytes.back()};
}

int fill(char value) {
  const std::string bytes(tensor->bytes, value);
  if (cuMemcpyHtoD_v2(address(), bytes.data(), bytes.size()) != CUDA_SUCCESS) return SLUICE_FAULT;
  return sluice_commit_tensor(store, tensor);
}

int obey(const std::string& what, const std::string& name, char value) {
  if (what == "connect") return sluice_store_connect(name.c_str(), &store);
  if (what == "store") {
    const int result = sluice_store_tensor(store, name.c_str(), kBytes, -1, &tensor);
    return result == SLUICE_OK && tensor->fill != 0 ? fill(value) : result;
  }
  if (what == "get") return sluice_get_tensor(store, name.c_str(), -1, &tensor);
  return SLUICE_OK;
}

}  // namespace

int main() {
  CUcontext context = nullptr;
  for (std::string line; std::getline(std::cin, line);) {
    if (context == nullptr &&
        (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
         cuCtxSetCurrent(context) != CUDA_SUCCESS))
      return 1;
    std::istringstream words(line);
    std::string what, name;
    char value = 0;
    words >> what >> name >> value;
    const int result = obey(what, name, value);
    std::cout << result << (tensor != nullptr ? " " + held() : "") << std::endl;
  }
}
