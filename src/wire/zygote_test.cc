#include "wire/zygote.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>

namespace sluice::wire {
namespace {

struct Sockets {
  Fd ours, theirs;
  Sockets() {
    int pair[2];
    SLUICE_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
    ours = Fd(pair[0]);
    theirs = Fd(pair[1]);
  }
};

TEST(Zygote, AMessageArrivesWithItsTextAndDescriptors) {
  Sockets s;
  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  StartInstance sent;
  set_text(sent.id, "resnet-1-abcd");
  sent.batch = 2;
  sent.max_batch = 8;
  const std::array fds{null.get(), null.get(), null.get()};
  ASSERT_TRUE(send_message(s.ours.get(), sent, fds).ok());

  Result<Packet> packet = receive_packet(s.theirs.get());
  ASSERT_TRUE(packet.ok());
  EXPECT_EQ(*kind_of(*packet), ZygoteKind::kStartInstance);
  const Result<StartInstance> got = message_of<StartInstance>(*packet, 3);
  ASSERT_TRUE(got.ok());
  EXPECT_STREQ(got->id, "resnet-1-abcd");
  EXPECT_EQ(got->batch, 2u);
  EXPECT_EQ(got->max_batch, 8u);
  struct stat a {
  }, b{};
  fstat(null.get(), &a);
  fstat(packet->fds[2].get(), &b);
  EXPECT_EQ(a.st_rdev, b.st_rdev);
}

TEST(Zygote, MissingDescriptorsAndShortMessagesAreInvalid) {
  Sockets s;
  ASSERT_TRUE(send_message(s.ours.get(), StartInstance{}).ok());
  Result<Packet> packet = receive_packet(s.theirs.get());
  EXPECT_EQ(message_of<StartInstance>(*packet, 3).error().kind, ErrorKind::kInvalid);

  ASSERT_TRUE(send_message(s.ours.get(), Drain{}).ok());
  packet = receive_packet(s.theirs.get());
  EXPECT_EQ(message_of<Go>(*packet).error().kind, ErrorKind::kInvalid);
  EXPECT_TRUE(message_of<Drain>(*packet).ok());
  packet->bytes.resize(3);
  EXPECT_FALSE(kind_of(*packet).ok());
}

TEST(Zygote, AnUnendedTextIsEnded) {
  Sockets s;
  Failed m;
  std::fill(std::begin(m.message), std::end(m.message), 'x');
  ASSERT_TRUE(send_message(s.ours.get(), m).ok());
  const Result<Packet> packet = receive_packet(s.theirs.get());
  EXPECT_EQ(error_of(*message_of<Failed>(*packet)).message.size(), sizeof m.message - 1);
}

TEST(Zygote, ALongErrorIsCutNotRefused) {
  const Failed m = failed({ErrorKind::kNotFound, std::string(5000, 'e')});
  EXPECT_EQ(error_of(m).kind, ErrorKind::kNotFound);
  EXPECT_EQ(error_of(m).message.size(), sizeof m.message - 1);
}

TEST(Zygote, AClosedPeerIsUnavailable) {
  Sockets s;
  s.theirs.reset();
  EXPECT_EQ(receive_packet(s.ours.get()).error().kind, ErrorKind::kUnavailable);
  EXPECT_EQ(send_message(s.ours.get(), Drain{}).error().kind, ErrorKind::kUnavailable);
}

TEST(Zygote, APacketOverTheLimitIsConsumedAndRefused) {
  Sockets s;
  const std::vector<std::byte> large(kMaxPacketBytes + 1);
  ASSERT_EQ(send(s.ours.get(), large.data(), large.size(), 0), static_cast<ssize_t>(large.size()));
  ASSERT_TRUE(send_message(s.ours.get(), Drain{}).ok());
  EXPECT_EQ(receive_packet(s.theirs.get()).error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(*kind_of(*receive_packet(s.theirs.get())), ZygoteKind::kDrain);
}

}  // namespace
}  // namespace sluice::wire
