// Green contexts: parts of a device's SMs as resources, contexts whose streams run their kernels
// there alone. They select SMs and reserve none: others' parts, and whole contexts, may hold the
// same ones. The device is of compute capability 9.0, and its parts are as large as there.
#include <cstring>

#include "emulator/driver.h"

using namespace sluice::emulator;

namespace {
constexpr unsigned kLeastSms = 8, kAlignment = 8;
constexpr unsigned kLeastAlone = 2;  // with CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING

// What a resource carries besides its counts, in the bytes that are the driver's own.
struct Inside {
  CUdevice device;
  std::uint32_t split;  // that it came of; 0: it may be split
  SmSet sms;
};
static_assert(sizeof(Inside) <= sizeof(CUdevResource::_internal_padding));

Inside inside(const CUdevResource& resource) {
  Inside in{};
  std::memcpy(&in, resource._internal_padding, sizeof in);
  return in;
}

CUdevResource resource_of(const Inside& in, unsigned alignment = kAlignment) {
  CUdevResource resource{};
  resource.type = in.sms.any() ? CU_DEV_RESOURCE_TYPE_SM : CU_DEV_RESOURCE_TYPE_INVALID;
  resource.sm = {static_cast<unsigned>(in.sms.count()), alignment, alignment};
  std::memcpy(resource._internal_padding, &in, sizeof in);
  return resource;
}

SmSet first(const SmSet& of, unsigned count) {
  SmSet some;
  for (std::size_t sm = 0; count > 0; ++sm) {
    some[sm] = of[sm];
    count -= of[sm] ? 1 : 0;
  }
  return some;
}

CUresult tell(CUdevResource* resource, CUdevResourceType type, CUdevice device, const SmSet& sms) {
  if (resource == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  *resource = resource_of({device, 0, sms});
  return CUDA_SUCCESS;
}

SmSet all_sms(Call& call, CUdevice device) {
  Machine::Lock lock(*call.driver().machine);
  return call.model(lock, device).all_sms();
}
}  // namespace

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource* resource, CUdevResourceType type) {
  Call call(__func__, Call::kDriver);
  if (const CUresult result = call.refused(device); result != CUDA_SUCCESS) return result;
  return tell(resource, type, device, all_sms(call, device));
}

CUresult cuCtxGetDevResource(CUcontext handle, CUdevResource* resource, CUdevResourceType type) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const Context* context = call.driver().contexts.find(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return tell(resource, type, context->device, context->sms);
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx handle, CUdevResource* resource,
                                  CUdevResourceType type) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const GreenContext* green = call.driver().greens.find(handle);
  if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return tell(resource, type, green->context->device, green->context->sms);
}

CUresult cuDevSmResourceSplitByCount(CUdevResource* groups, unsigned* count,
                                     const CUdevResource* from, CUdevResource* rest, unsigned flags,
                                     unsigned least) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (count == nullptr || from == nullptr || flags > 3) return CUDA_ERROR_INVALID_VALUE;
  if (from->type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  Inside left = inside(*from);
  if (left.split != 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  if (least > left.sms.count()) return CUDA_ERROR_INVALID_VALUE;
  const bool alone = (flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING) != 0;
  const unsigned step = alone ? kLeastAlone : kAlignment;
  const unsigned size = std::max((least + step - 1) / step * step, alone ? step : kLeastSms);
  const auto possible = static_cast<unsigned>(left.sms.count() / size);
  if (groups == nullptr) {
    *count = possible;
    return CUDA_SUCCESS;
  }
  if (possible == 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  *count = std::min(*count, possible);
  left.split = ++call.driver().splits;
  for (unsigned i = 0; i < *count; ++i) {
    const SmSet group = first(left.sms, size);
    groups[i] = resource_of({left.device, left.split, group}, step);
    left.sms &= ~group;
  }
  if (rest != nullptr) *rest = resource_of(left, step);
  return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* handle, CUdevResource* resources,
                                   unsigned count) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  if (handle == nullptr || resources == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_unique<ResourceDescriptor>();
  const Inside one = inside(resources[0]);
  for (unsigned i = 0; i < count; ++i) {
    if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    const Inside in = inside(resources[i]);
    if (i > 0 && (in.device != one.device || in.split != one.split || in.split == 0))
      return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    made->sms |= in.sms;
  }
  made->device = one.device;
  *handle = reinterpret_cast<CUdevResourceDesc>(call.driver().descriptors.add(std::move(made)));
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxCreate(CUgreenCtx* handle, CUdevResourceDesc descriptor, CUdevice device,
                          unsigned flags) {
  Call call(__func__, Call::kDriver);
  if (const CUresult result = call.refused(device); result != CUDA_SUCCESS) return result;
  Driver& driver = call.driver();
  const ResourceDescriptor* of = driver.descriptors.find(descriptor);
  if (handle == nullptr || of == nullptr || of->device != device ||
      flags != CU_GREEN_CTX_DEFAULT_STREAM)
    return CUDA_ERROR_INVALID_VALUE;
  auto context = std::make_unique<Context>();
  context->device = device;
  context->sms = of->sms;
  context->group = driver.groups++;
  const CUresult result = retain_primary(call, device, &context->primary);
  if (result != CUDA_SUCCESS) return result;
  Context* made = driver.contexts.add(std::move(context));
  Stream* legacy = make_stream(call, *made, StreamKind::kLegacy, CU_STREAM_DEFAULT, 0);
  if (legacy == nullptr) {
    driver.contexts.remove(made);
    release_primary(call, device);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  driver.legacy[made] = legacy;
  auto green = std::make_unique<GreenContext>(GreenContext{made});
  *handle = reinterpret_cast<CUgreenCtx>(driver.greens.add(std::move(green)));
  return CUDA_SUCCESS;
}

// Its streams are of no use any more, and lost; what is queued in them runs out.
CUresult cuGreenCtxDestroy(CUgreenCtx handle) {
  Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  Driver& driver = call.driver();
  GreenContext* green = driver.greens.find(handle);
  if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  Context* context = green->context;
  const CUdevice device = context->device;
  {
    Machine::Lock lock(*driver.machine);
    driver.streams.for_each([&](Stream& stream) {
      if (stream.made_in != context) return;
      call.model(lock, device).close_stream(stream.model);
      stream.made_in = nullptr;
    });
  }
  driver.streams.remove(driver.legacy.at(context));
  driver.legacy.erase(context);
  driver.greens.remove(green);
  driver.contexts.remove(context);
  release_primary(call, device);
  return CUDA_SUCCESS;
}

CUresult cuCtxFromGreenCtx(CUcontext* context, CUgreenCtx handle) {
  const Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const GreenContext* green = call.driver().greens.find(handle);
  if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = reinterpret_cast<CUcontext>(green->context);
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxStreamCreate(CUstream* handle, CUgreenCtx green_handle, unsigned flags,
                                int priority) {
  Call call(__func__, Call::kDriver);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const GreenContext* green = call.driver().greens.find(green_handle);
  if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (handle == nullptr || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  Stream* made = make_stream(call, *green->context, StreamKind::kNonBlocking, flags, priority);
  if (made == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = reinterpret_cast<CUstream>(made);
  return CUDA_SUCCESS;
}

CUresult cuStreamGetGreenCtx(CUstream handle, CUgreenCtx* green) {
  Call call(__func__);
  if (call.refused() != CUDA_SUCCESS) return call.refused();
  const Stream* stream = stream_of(call, handle, DefaultStream::kLegacy);
  if (stream == nullptr) return no_stream(call, handle);
  if (green == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *green = nullptr;
  call.driver().greens.for_each([&](GreenContext& other) {
    if (other.context == stream->made_in) *green = reinterpret_cast<CUgreenCtx>(&other);
  });
  return CUDA_SUCCESS;
}
