// A secret is the content of a file in one folder of the platform's own, and of no other.
#include "wire/secret_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/folder.h"

namespace sluice::wire {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class SecretFile : public testing::Test {
 protected:
  SecretFile() {
    fs::create_directory(secrets);
    fs::permissions(secrets, fs::perms(0700));
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(secrets / name) << text;
    fs::permissions(secrets / name, fs::perms(0600));
  }
  std::string value(const std::string& name) const {
    const auto read = read_secret(secrets, name);
    EXPECT_TRUE(read.ok()) << read.error().message;
    return read.ok() ? *read : "";
  }
  std::string fault(const std::string& name) const {
    const auto read = read_secret(secrets, name);
    EXPECT_FALSE(read.ok()) << name;
    if (read.ok()) return "";
    EXPECT_EQ(read.error().kind, ErrorKind::kInvalid);
    return read.error().message;
  }

  const TemporaryFolder folder;
  const fs::path secrets = fs::path(folder.path) / "secrets";
};

// `server.files` may name what others may read.
TEST_F(SecretFile, OthersMayNotReadIt) {
  write("key", "x");
  fs::permissions(secrets / "key", fs::perms(0640));
  EXPECT_THAT(fault("key"), testing::HasSubstr("must be its owner's alone (chmod 600)"));
}

TEST_F(SecretFile, ItsValueIsTheFileWithoutOneNewline) {
  write("key", "hunter2\n");
  EXPECT_EQ(value("key"), "hunter2");
  write("key", "two\nlines\n\n");
  EXPECT_EQ(value("key"), "two\nlines\n");
  write("key", "");
  EXPECT_EQ(value("key"), "");
  write("key", std::string(64 << 10, 'x'));
  EXPECT_EQ(value("key").size(), size_t{64} << 10);
}

TEST_F(SecretFile, NoNameLeadsOutOfTheFolder) {
  std::ofstream(fs::path(folder.path) / "outside") << "hunter2";
  fs::create_directory(secrets / "inner");
  write("inner/key", "hunter2");
  for (const std::string name : {"", ".", "..", "../outside", "/etc/shadow", "inner/key", ".hidden",
                                 "a b", "a\nb", "-x", "\xc3\xa4"}) {
    EXPECT_FALSE(check_secret_name(name).ok()) << name;
    EXPECT_THAT(fault(name), HasSubstr("is no name of a file in DATA/secrets")) << name;
  }
  EXPECT_FALSE(check_secret_name(std::string("a\0b", 3)).ok());
  EXPECT_FALSE(check_secret_name(std::string(256, 'a')).ok());
  EXPECT_TRUE(check_secret_name("3rd-party_Key.v2").ok());
}

TEST_F(SecretFile, AFaultNamesThePathAndNotTheValue) {
  EXPECT_THAT(fault("key"), HasSubstr((secrets / "key").string() + ": no such file"));
  fs::create_symlink("/etc/hostname", secrets / "link");
  EXPECT_THAT(fault("link"), HasSubstr("is a link"));
  fs::create_directory(secrets / "folder");
  EXPECT_THAT(fault("folder"), HasSubstr("is a directory"));
  ASSERT_EQ(::mkfifo((secrets / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(fault("fifo"), HasSubstr("is no regular file"));
  write("large", std::string((64 << 10) + 1, 'x'));
  EXPECT_THAT(fault("large"), HasSubstr("has 65537 bytes; at most 65536 are allowed"));
  write("nul", std::string("hunter2\0x", 9));
  EXPECT_THAT(fault("nul"), HasSubstr("has a NUL"));
  EXPECT_THAT(fault("nul"), Not(HasSubstr("hunter2")));
}

// Others would choose what root hands to a program.
TEST_F(SecretFile, AFolderThatOthersCanWriteToIsNotRead) {
  write("key", "hunter2");
  for (const int mode : {0770, 0702}) {
    fs::permissions(secrets, fs::perms(mode));
    EXPECT_THAT(fault("key"), HasSubstr("that no other can write to"));
  }
  fs::permissions(secrets, fs::perms(0755));
  EXPECT_EQ(value("key"), "hunter2");
  if (geteuid() == 0) {
    ASSERT_EQ(::chown(secrets.c_str(), 12345, 0), 0);
    EXPECT_THAT(fault("key"), HasSubstr("must be a folder of the platform's user"));
  }
  const fs::path real = fs::path(folder.path) / "real";
  fs::rename(secrets, real);
  EXPECT_THAT(fault("key"), HasSubstr("there is no such folder"));
  fs::create_directory_symlink(real, secrets);
  EXPECT_THAT(fault("key"), HasSubstr("is no folder"));
}

}  // namespace
}  // namespace sluice::wire
