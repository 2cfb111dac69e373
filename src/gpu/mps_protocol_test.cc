// What is said to NVIDIA's MPS control program, and what is made of its answers.
#include "gpu/mps_protocol.h"

#include <gmock/gmock.h>

namespace sluice::node {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(MpsProtocol, CommandsAreLines) {
  EXPECT_EQ(line_of(MpsListServers{}), "get_server_list\n");
  EXPECT_EQ(line_of(MpsStartServer{.user = 1000}), "start_server -uid 1000\n");
  EXPECT_EQ(line_of(MpsShutDownServer{.server = 7}), "shutdown_server 7\n");
  EXPECT_EQ(line_of(MpsServerStatus{.server = 7}), "get_server_status 7\n");
  EXPECT_EQ(line_of(MpsListClients{.server = 7}), "get_client_list 7\n");
  EXPECT_EQ(line_of(MpsTerminateClient{.server = 7, .client = 9}), "terminate_client 7 9\n");
  EXPECT_EQ(line_of(MpsQuit{}), "quit\n");
}

TEST(MpsProtocol, PidsStandInLines) {
  EXPECT_THAT(*pids_in("12\n4194304\n"), ElementsAre(12, 4194304));
  EXPECT_THAT(*pids_in(""), IsEmpty());
  EXPECT_THAT(*pids_in("\n \r\n"), IsEmpty());
}

TEST(MpsProtocol, WhatIsNoPidIsQuoted) {
  for (const char* wrong : {"12\nServer not found", "-3", "0", "12x", "99999999999"})
    EXPECT_FALSE(pids_in(wrong).ok()) << wrong;
  EXPECT_EQ(pids_in("Server  34\nnot found\n").error().message, "MPS says 'Server 34 not found'");
}

TEST(MpsProtocol, AServerIsInOneOfThreeStates) {
  EXPECT_EQ(*server_state_in("ACTIVE\n"), MpsServerState::kActive);
  EXPECT_EQ(*server_state_in("Server 12 is INITIALIZING"), MpsServerState::kInitializing);
  EXPECT_EQ(*server_state_in("FAULT"), MpsServerState::kFault);
  EXPECT_FALSE(server_state_in("INACTIVE").ok());
  EXPECT_EQ(server_state_in("").error().message, "MPS says nothing");
}

TEST(MpsProtocol, OnlySuccessIsSuccess) {
  EXPECT_TRUE(termination_in("0\n").ok());
  EXPECT_TRUE(termination_in("CUDA_SUCCESS\n").ok());
  EXPECT_FALSE(termination_in("201\n").ok());
  EXPECT_FALSE(termination_in("Invalid process 2674!\n1\n").ok());
  EXPECT_FALSE(termination_in("CUDA_ERROR_INVALID_VALUE").ok());
  EXPECT_FALSE(termination_in("").ok());
}

TEST(MpsProtocol, AQuoteIsShortAndHarmless) {
  const std::string message = pids_in("\x1b[2J" + std::string(100'000, 'x')).error().message;
  EXPECT_LT(message.size(), 200U);
  EXPECT_THAT(message, testing::StartsWith("MPS says '?[2Jxxx"));
}

}  // namespace
}  // namespace sluice::node
