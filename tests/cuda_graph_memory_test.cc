// The memory of graphs that allocate: captured from a stream, as frameworks make them.
#include "tests/memory_program.h"

namespace sluice {
namespace {

TEST_F(CudaMemory, AGraphHasItsMemoryFromItsFirstLaunchUntilItIsTrimmed) {
  Program program(folder_);
  program.capture_graph(64, 0);
  EXPECT_EQ(on_device(), kContext);
  EXPECT_EQ(program.ask("info").numbers[0], limit_ - kContext);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(program.launch(0), CUDA_SUCCESS);
    EXPECT_EQ(on_device(), kContext + 64);
    EXPECT_EQ(program.ask("info").numbers[0], limit_ - kContext - 64);
  }
  EXPECT_EQ(program.ask("drop 0").result, CUDA_SUCCESS);
  EXPECT_EQ(program.ask("info").numbers[0], limit_ - kContext - 64) << "a device keeps it";
  EXPECT_EQ(program.ask("trim").result, CUDA_SUCCESS);
  EXPECT_EQ(program.ask("info").numbers[0], limit_ - kContext);
}

TEST_F(CudaMemory, EveryWayToInstantiateAGraphIsCharged) {
  int graph = 0;
  Program program(folder_);
  for (const char* by : {"first", "second", "flags", "params", "upload"}) {
    SCOPED_TRACE(by);
    program.capture_graph(128, 0, by);
    const bool uploaded = by == std::string("upload");
    EXPECT_EQ(on_device(), kContext + (uploaded ? 128 : 0));
    EXPECT_EQ(program.launch(graph), CUDA_SUCCESS);
    EXPECT_EQ(program.ask("info").numbers[0], limit_ - kContext - 128);
    EXPECT_EQ(program.ask("drop " + std::to_string(graph++)).result, CUDA_SUCCESS);
    EXPECT_EQ(program.ask("trim").result, CUDA_SUCCESS);
  }
  EXPECT_EQ(program.ask("capture 512 0").result, CUDA_SUCCESS);
  EXPECT_EQ(program.ask("instantiate 5 upload").result, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(program.ask("instantiate 5 flags").result, CUDA_SUCCESS) << "nothing is left of it";
  EXPECT_EQ(program.ask("upload 5").result, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(on_device(), kContext);
}

TEST_F(CudaMemory, AGraphThatTheSliceHasNoRoomForIsNotLaunchedAndHarmsNothing) {
  Program program(folder_);
  program.capture_graph(0, 128);
  program.capture_graph(128, 0);
  EXPECT_EQ(program.launch(0), CUDA_SUCCESS);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(program.launch(1), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(on_device(), kContext + 128);
    EXPECT_EQ(program.ask("info").numbers[0], limit_ - kContext - 128);
    EXPECT_EQ(program.launch(0), CUDA_SUCCESS) << "it has its memory";
  }
  set_limit(kContext + 256);
  EXPECT_EQ(program.launch(1), CUDA_SUCCESS);
  set_limit(kContext);
  EXPECT_EQ(program.launch(0), CUDA_SUCCESS) << "a lower limit takes nothing away";
  EXPECT_EQ(program.launch(1), CUDA_SUCCESS);
  EXPECT_EQ(program.allocate("plain", 2), CUDA_ERROR_OUT_OF_MEMORY) << "and gives nothing new";
  EXPECT_EQ(program.launch(1), CUDA_ERROR_OUT_OF_MEMORY) << "what is trimmed is new again";
}

TEST_F(CudaMemory, WhatGraphsKeepForLaterIsForAllKindsAndForOtherGraphs) {
  Program program(folder_);
  int which = 0;
  program.capture_graph(128, 0);
  program.capture_graph(192, 0);
  for (const char* kind : {"plain", "pitched", "managed", "virtual", "array", "pooled", "graph"}) {
    EXPECT_EQ(program.launch(0), CUDA_SUCCESS) << "what it needs is trimmed from the other";
    EXPECT_EQ(on_device(), kContext + 128);
    EXPECT_EQ(program.allocate(kind, 192), CUDA_SUCCESS) << kind;
    EXPECT_EQ(program.launch(0), CUDA_ERROR_OUT_OF_MEMORY) << kind;
    EXPECT_EQ(program.ask("free " + std::to_string(which++)).result, CUDA_SUCCESS);
    EXPECT_EQ(program.launch(1), CUDA_SUCCESS);
    EXPECT_EQ(on_device(), kContext + 192);
  }
}

// What it frees itself can be trimmed, what it leaves cannot: its next launch needs the former.
TEST_F(CudaMemory, AGraphThatLeavesMemoryNeedsWhatWasTrimmedOfIt) {
  Program program(folder_);
  program.capture_graph(64, 96);
  EXPECT_EQ(program.launch(0), CUDA_SUCCESS);
  EXPECT_EQ(on_device(), kContext + 160);
  EXPECT_EQ(program.allocate("plain", 96), CUDA_SUCCESS);
  EXPECT_EQ(on_device(), kContext + 96 + 96);
  EXPECT_EQ(program.launch(0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(program.ask("free 0").result, CUDA_SUCCESS);
  EXPECT_EQ(program.allocate("plain", 80), CUDA_SUCCESS);
  EXPECT_EQ(program.launch(0), CUDA_SUCCESS);
  EXPECT_EQ(on_device(), limit_);
  EXPECT_EQ(program.ask("info").numbers[0], 0);
}

}  // namespace
}  // namespace sluice
