#include "tests/emulator/capture.h"

#include <algorithm>
#include <set>

namespace sluice::emulator {
namespace {
// All that a set of nodes comes after, itself included.
std::set<const Node*> ancestry(const std::vector<Node*>& nodes) {
  std::set<const Node*> seen;
  std::vector<const Node*> open(nodes.begin(), nodes.end());
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (!seen.insert(node).second) continue;
    open.insert(open.end(), node->after.begin(), node->after.end());
  }
  return seen;
}

template <typename F>
void for_open_captures(Driver& driver, F&& visit) {
  std::erase_if(driver.captures, [](const auto& weak) { return weak.expired(); });
  for (const auto& weak : driver.captures)
    if (const auto capture = weak.lock()) visit(*capture);
}

void leave_capture(Stream& stream) {
  stream.capture.reset();
  stream.began_capture = false;
  stream.frontier.clear();
}
}  // namespace

CUstreamCaptureMode& capture_mode_of_thread() {
  thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

CUresult unsafe_call(Driver& driver) {
  if (capture_mode_of_thread() == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  for_open_captures(driver, [&](Capture& capture) {
    if (capture.mode == CU_STREAM_CAPTURE_MODE_RELAXED) return;
    const bool mine = capture.thread == thread_id();
    const bool all = capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                     capture_mode_of_thread() == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!mine && !all) return;
    capture.invalid = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  });
  return result;
}

Captured capture(Driver& driver, Stream& stream, Node node, CUresult& result) {
  if (stream.capture == nullptr) {
    // The legacy stream orders itself with blocking ones, which cannot be captured.
    if (stream.kind != StreamKind::kLegacy) return Captured::kNo;
    bool any = false;
    driver.streams.for_each([&](Stream& other) {
      if (other.capture == nullptr || other.context != stream.context) return;
      if (other.kind != StreamKind::kBlocking) return;
      other.capture->invalid = true;
      any = true;
    });
    if (!any) return Captured::kNo;
    result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return Captured::kRefused;
  }
  if (stream.capture->invalid) {
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    return Captured::kRefused;
  }
  node.after = stream.frontier;
  stream.capture->graph->nodes.push_back(std::move(node));
  stream.frontier = {&stream.capture->graph->nodes.back()};
  return Captured::kYes;
}

CUresult refuse_if_capturing(Stream& stream) {
  if (stream.capture == nullptr) return CUDA_SUCCESS;
  stream.capture->invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

void capture_record(Stream& stream, Event& event) {
  event.capture = stream.capture;
  event.capture_ended = false;
  event.frontier = stream.frontier;
}

CUresult capture_wait(Stream& stream, const Event& event) {
  if (stream.capture == nullptr) {
    stream.capture = event.capture;
    stream.frontier = event.frontier;
    return CUDA_SUCCESS;
  }
  if (event.capture == nullptr) {
    stream.capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;  // it would depend on what is not in the graph
  }
  if (event.capture != stream.capture) {
    stream.capture->invalid = event.capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  for (Node* node : event.frontier)
    if (std::find(stream.frontier.begin(), stream.frontier.end(), node) == stream.frontier.end())
      stream.frontier.push_back(node);
  return CUDA_SUCCESS;
}

CUresult begin_capture(Driver& driver, Stream& stream, CUstreamCaptureMode mode) {
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  if (stream.kind == StreamKind::kLegacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream.capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  stream.capture = std::make_shared<Capture>();
  stream.capture->id = ++driver.capture_ids;
  stream.capture->mode = mode;
  stream.capture->thread = thread_id();
  stream.began_capture = true;
  driver.captures.push_back(stream.capture);
  return CUDA_SUCCESS;
}

CUresult end_capture(Driver& driver, Stream& stream, std::unique_ptr<Graph>& graph) {
  if (stream.capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (!stream.began_capture) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  const std::shared_ptr<Capture> capture = stream.capture;
  const auto joined = ancestry(stream.frontier);
  CUresult result = capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != thread_id())
    result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  driver.streams.for_each([&](Stream& other) {
    if (other.capture != capture) return;
    for (const Node* node : other.frontier)
      if (!joined.contains(node) && result == CUDA_SUCCESS)
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    leave_capture(other);
  });
  driver.events.for_each([&](Event& event) {
    if (event.capture != capture) return;
    event.capture.reset();
    event.capture_ended = true;
  });
  if (result == CUDA_SUCCESS) graph = std::move(capture->graph);
  return result;
}

}  // namespace sluice::emulator
