// The memory of graphs that allocate: captured from a stream, as frameworks make them.
#include "tests/support/memory_program.h"

namespace sluice {
namespace {

TEST_F(CudaMemory, AGraphIsChargedFromWhenItIsInstantiatedUntilItIsDestroyedAndTrimmed) {
  Program program(folder_);
  program.capture_graph(64, 0);
  EXPECT_EQ(on_device(), kContext);
  EXPECT_EQ(program.ask("info").numbers[0], limit_ - kContext - 64);
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
  for (const std::string by : {"first", "second", "flags", "params", "upload"}) {
    SCOPED_TRACE(by);
    program.capture_graph(128, 0, by);
    EXPECT_EQ(on_device(), kContext + (by == "upload" ? 128 : 0));
    EXPECT_EQ(program.ask("info").numbers[0], limit_ - kContext - 128);
    EXPECT_EQ(program.launch(graph), CUDA_SUCCESS);
    EXPECT_EQ(program.ask("drop " + std::to_string(graph++)).result, CUDA_SUCCESS);
    EXPECT_EQ(program.ask("trim").result, CUDA_SUCCESS);
    EXPECT_EQ(program.ask("info").numbers[0], limit_ - kContext);
  }
  EXPECT_EQ(program.ask("capture 512 0").result, CUDA_SUCCESS);
  for (const std::string by : {"first", "second", "flags", "params", "upload"})
    EXPECT_EQ(program.ask("instantiate 5 " + by).result, CUDA_ERROR_OUT_OF_MEMORY) << by;
  EXPECT_EQ(on_device(), kContext);
}

TEST_F(CudaMemory, AGraphThatTheSliceHasNoRoomForIsNotInstantiatedAndHarmsNothing) {
  Program program(folder_);
  program.capture_graph(0, 128);
  EXPECT_EQ(program.launch(0), CUDA_SUCCESS);
  EXPECT_EQ(program.ask("capture 128 0").result, CUDA_SUCCESS);
  EXPECT_EQ(program.ask("instantiate 1 flags").result, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(program.ask("info").numbers[0], limit_ - kContext - 128);
  EXPECT_EQ(program.launch(0), CUDA_SUCCESS) << "it has its memory";
  set_limit(kContext + 256);
  EXPECT_EQ(program.ask("instantiate 1 flags").result, CUDA_SUCCESS);
  set_limit(kContext);
  EXPECT_EQ(program.launch(0), CUDA_SUCCESS) << "a lower limit takes nothing away";
  EXPECT_EQ(program.launch(1), CUDA_SUCCESS);
  EXPECT_EQ(program.allocate("plain", 2), CUDA_ERROR_OUT_OF_MEMORY) << "and gives nothing new";
}

TEST_F(CudaMemory, WhatDestroyedGraphsKeepIsForAllKinds) {
  Program program(folder_);
  int which = 0;
  for (const char* kind : {"plain", "pitched", "managed", "virtual", "array", "pooled", "graph"}) {
    program.capture_graph(192, 0);
    EXPECT_EQ(program.launch(which), CUDA_SUCCESS);
    EXPECT_EQ(program.ask("drop " + std::to_string(which)).result, CUDA_SUCCESS);
    EXPECT_EQ(on_device(), kContext + 192) << "it is kept";
    EXPECT_EQ(program.allocate(kind, 192), CUDA_SUCCESS) << kind;
    EXPECT_EQ(on_device(), kContext + 192);
    EXPECT_EQ(program.ask("free " + std::to_string(which++)).result, CUDA_SUCCESS);
  }
}

TEST_F(CudaMemory, WhatDestroyedGraphsHaveLeftInUseStaysCharged) {
  Program program(folder_);
  for (int graph = 0; graph < 2; ++graph) {
    program.capture_graph(32, 96);
    EXPECT_EQ(program.launch(graph), CUDA_SUCCESS);
    EXPECT_EQ(program.ask("drop " + std::to_string(graph)).result, CUDA_SUCCESS);
    EXPECT_EQ(program.ask("trim").result, CUDA_SUCCESS);
    EXPECT_EQ(program.ask("info").numbers[0], limit_ - kContext - 96 * (graph + 1));
  }
  EXPECT_EQ(program.ask("capture 32 96").result, CUDA_SUCCESS);
  EXPECT_EQ(program.ask("instantiate 2 flags").result, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(on_device(), kContext + 192);
}

}  // namespace
}  // namespace sluice
