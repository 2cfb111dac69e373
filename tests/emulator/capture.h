// The rules of stream capture: what is recorded into a graph instead of being done, and what must
// not be called meanwhile. The process's lock is held.
#pragma once

#include "tests/emulator/driver.h"

namespace sluice::emulator {

// Refuses a call that could break a capture it is not part of (memory, waiting, event queries)
// while an open capture forbids it to this thread. That capture is then invalid.
CUresult unsafe_call(Driver& driver);

// Work for a stream: kYes where it was captured as `node` and is not to be done, kRefused with
// `result`.
enum class Captured { kNo, kYes, kRefused };
Captured capture(Driver& driver, Stream& stream, Node node, CUresult& result);

// Waiting for, or querying, a stream that captures invalidates the capture.
CUresult refuse_if_capturing(Stream& stream);

// An event recorded in a capturing stream stands for a place in the capture; a stream that waits
// for it joins that capture.
void capture_record(Stream& stream, Event& event);
CUresult capture_wait(Stream& stream, const Event& event);

CUresult begin_capture(Driver& driver, Stream& stream, CUstreamCaptureMode mode);
// Ends the capture whatever it returns, but for a stream that did not begin one.
CUresult end_capture(Driver& driver, Stream& stream, std::unique_ptr<Graph>& graph);

// This thread's mode towards captures of other threads.
CUstreamCaptureMode& capture_mode_of_thread();

}  // namespace sluice::emulator
