#include "gateway/io.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace sluice::gateway {
namespace {

// A stream and the other end of its connection.
class AtOnce : public testing::Test {
 protected:
  AtOnce() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    Socket socket(io.get_executor());
    socket.assign(asio::generic::stream_protocol(AF_UNIX, 0), ends[0]);
    socket.non_blocking(true);
    stream.emplace(std::move(socket));
    peer = ends[1];
  }
  ~AtOnce() override {
    if (peer >= 0) close(peer);
  }
  asio::io_context io;
  std::optional<PlainStream> stream;
  int peer = -1;
};

TEST_F(AtOnce, AShortTextArrives) {
  EXPECT_TRUE(stream->send_at_once("hello"));
  char text[16];
  EXPECT_EQ(read(peer, text, sizeof text), 5);
}

TEST_F(AtOnce, AFullBufferSaysNothingOfTheClient) {
  const std::string much(4096, 'x');
  while (send(stream->socket().native_handle(), much.data(), much.size(),
              MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
  }
  EXPECT_TRUE(stream->send_at_once("hello"));
}

TEST_F(AtOnce, AClientThatHasLeftIsNoticed) {
  close(std::exchange(peer, -1));
  EXPECT_FALSE(stream->send_at_once("hello"));
}

}  // namespace
}  // namespace sluice::gateway
