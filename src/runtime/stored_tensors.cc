#include "runtime/stored_tensors.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>
#include <utility>

#include "wire/store_error.h"

namespace sluice::runtime {
namespace {

constexpr uint64_t kAlignment = 512;  // of CUDA's allocators; the CPU's kernels want 64

struct Place {
  at::Tensor tensor;
  uint64_t offset = 0;
};

// Returns where each tensor lies in the stored one; `bytes` of all. The order is the caller's, so
// that processes that load the same model agree.
std::vector<Place> lay_out(const std::vector<at::Tensor>& tensors, uint64_t& bytes) {
  std::vector<Place> places;
  std::map<std::pair<const void*, uint64_t>, uint64_t> known;
  for (const at::Tensor& t : tensors) {
    if (t.layout() != at::kStrided || t.nbytes() == 0 || !t.is_non_overlapping_and_dense())
      continue;
    const auto [at, is_new] = known.try_emplace({t.data_ptr(), t.nbytes()}, bytes);
    if (is_new) bytes += (t.nbytes() + kAlignment - 1) / kAlignment * kAlignment;
    places.push_back({t, at->second});
  }
  return places;
}

at::Tensor view_of(const sluice_tensor& stored, const Place& place) {
  const at::Tensor& t = place.tensor;
  return at::for_blob(static_cast<char*>(stored.data) + place.offset, t.sizes())
      .strides(t.strides())
      .options(t.options())
      .target_device(t.device())
      .make_tensor();
}

// Copies to a GPU are asynchronous, and may still be in progress.
void finish_copies(const at::Device& device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.synchronizeStream(guard.getStream(device));
}

bool same(const sluice_tensor& stored, const std::vector<Place>& places) {
  for (const Place& place : places)
    if (!at::equal(view_of(stored, place), place.tensor)) return false;
  return true;
}

Error error_of(enum sluice_error code, const sluice_store* store) {
  return {wire::error_kind_of(code), sluice_store_why(store)};
}

}  // namespace

Result<void> share_tensors(sluice_store* store, const std::string& name,
                           const std::vector<at::Tensor>& tensors, int64_t wait_ms) {
  const c10::NoGradGuard no_grad;
  uint64_t bytes = 0;
  const std::vector<Place> places = lay_out(tensors, bytes);
  if (places.empty()) return {};
  sluice_tensor* stored = nullptr;
  if (const auto code = sluice_store_tensor(store, name.c_str(), bytes, wait_ms, &stored);
      code != SLUICE_OK)
    return error_of(code, store);

  const auto give_up = [&](Error error) {
    sluice_release_tensor(store, stored);
    return error;
  };
  const at::Device device = places.front().tensor.device();
  if ((stored->on_cuda != 0) != device.is_cuda())
    return give_up({ErrorKind::kInvalid,
                    "the store has memory of another kind of device than " + device.str()});
  if (stored->fill != 0) {
    for (const Place& place : places) view_of(*stored, place).copy_(place.tensor);
    if (device.is_cuda()) finish_copies(device);
    if (const auto code = sluice_commit_tensor(store, stored); code != SLUICE_OK)
      return give_up(error_of(code, store));
  } else if (!same(*stored, places)) {
    return give_up({ErrorKind::kConflict, "'" + name + "' is stored with other values"});
  }
  for (const Place& place : places) {
    at::Tensor tensor = place.tensor;
    tensor.set_data(view_of(*stored, place));
  }
  return {};
}

}  // namespace sluice::runtime
