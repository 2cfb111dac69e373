#include "train/arrays.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/folder.h"

namespace sluice::train {
namespace {

using testing::HasSubstr;

std::string npy(const std::string& header, size_t data_bytes) {
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 255);
  bytes += static_cast<char>(header.size() >> 8);
  return bytes + header + std::string(data_bytes, '\1');
}
std::string npy(const std::string& type, const std::string& shape, size_t data_bytes) {
  return npy("{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }\n",
             data_bytes);
}

TEST(ArrayHeader, IsReadAsNumpyWritesIt) {
  const std::string bytes = npy("<f4", "(100, 3)", 1200);
  const ArrayHeader header = *array_header_from(bytes);
  EXPECT_EQ(header.type, "<f4");
  EXPECT_EQ(header.shape, (std::vector<int64_t>{100, 3}));
  EXPECT_EQ(bytes.size() - header.data, 1200u);
}

TEST(ArrayHeader, OneTypeMayBeWrittenInSeveralWays) {
  for (const auto& [written, type] : {std::pair{"<u1", "|u1"},
                                      {">i1", "|i1"},
                                      {"=b1", "|b1"},
                                      {"|u1", "|u1"},
                                      {"=f4", "<f4"},
                                      {"<i8", "<i8"}})
    EXPECT_EQ(array_header_from(npy(written, "(3,)", 24))->type, type) << written;
}

TEST(ArrayHeader, AFaultSaysWhatIsWrong) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "is no array of NumPy's"},
      {"PK\3\4 an archive of arrays", "is no array of NumPy's"},
      {npy("<f4", "(3,)", 0).substr(0, 30), "ends in its header"},
      {npy("<f4", "()", 4), "is a single number"},
      {npy("<f4", "(3", 4), "its shape is no tuple"},
      {npy("<f4", "(-3,)", 4), "its shape holds no whole number"},
      {npy("<f4", "(9223372036854775807, 9)", 4), "its shape is too large"},
      {npy(">f4", "(3,)", 12), "has type '>f4'"},
      {npy("|O", "(3,)", 24), "has type '|O'"},
      {npy("", "(3,)", 24), "has type ''"},
      {npy("<u2", "(3,)", 6), "save array.astype(TYPE) with one of <f4, <f8, "},
      {npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }", 12),
       "its type is not of one number"},
      {npy("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }", 24), "lies in columns"},
      {npy("{'descr': '<f4', 'fortran_order': False}", 0), "its header lacks 'shape'"}};
  for (const auto& [bytes, why] : cases) {
    const auto header = array_header_from(bytes);
    ASSERT_FALSE(header.ok()) << why;
    EXPECT_THAT(header.error().message, HasSubstr(why));
  }
}

// No bytes make it read beyond them, which the sanitizer sees.
TEST(ArrayHeader, AnyCutOfAHeaderIsReadOrRefused) {
  const std::string bytes = npy("<f4", "(100, 3)", 0);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    const std::string part = bytes.substr(0, cut);
    EXPECT_EQ(array_header_from(part).ok(), cut == bytes.size());
  }
  for (size_t at = 0; at < bytes.size(); ++at)
    for (const char c : {'\0', '\'', '(', ')', ':', '\xff'}) {
      std::string changed = bytes;
      changed[at] = c;
      (void)array_header_from(changed);
    }
}

class ArrayFolder : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_.path + "/" + name) << bytes;
  }
  std::string fault() const {
    const auto opened = Arrays::open(folder_.path);
    return opened.ok() ? "" : opened.error().message;
  }

  TemporaryFolder folder_;
};

TEST_F(ArrayFolder, ArraysStandInTheOrderOfTheirNamesOrOfTheIndex) {
  write("b.npy", npy("<i8", "(2,)", 16));
  write("a.npy", npy("<f4", "(2, 5)", 40));
  write("readme", "of no account");
  const auto first = Arrays::open(folder_.path);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first->arrays()[0].name, "a.npy");
  EXPECT_EQ(first->arrays()[0].sample_bytes, 20u);
  EXPECT_EQ(first->samples(), 2);
  write("index.json", R"({"arrays": ["b.npy"]})");
  EXPECT_EQ(Arrays::open(folder_.path)->arrays().size(), 1u);
}

TEST_F(ArrayFolder, AFaultNamesTheFile) {
  EXPECT_THAT(fault(), HasSubstr("has no array NAME.npy"));
  write("a.npy", "");
  EXPECT_THAT(fault(), HasSubstr("a.npy: is empty"));
  write("a.npy", npy("<f4", "(10,)", 39));
  EXPECT_THAT(fault(), HasSubstr("a.npy: has 39 bytes of data; its shape needs 40"));
  write("a.npy", npy("<f4", "(0, 3)", 0));
  EXPECT_THAT(fault(), HasSubstr("has no samples"));
  write("a.npy", npy("<f4", "(10,)", 40));
  write("b.npy", npy("<i8", "(9,)", 72));
  EXPECT_THAT(fault(), HasSubstr("b.npy has 9 samples, a.npy has 10"));
  write("index.json", "[]");
  EXPECT_THAT(fault(), HasSubstr("index.json: must be {\"arrays\""));
  write("index.json", R"({"arrays": ["../secret.npy"]})");
  EXPECT_THAT(fault(), HasSubstr("must be names of files in the folder"));
}

TEST_F(ArrayFolder, AChangeUnderWayIsNoticed) {
  write("a.npy", npy("<f4", "(10,)", 40));
  const auto arrays = Arrays::open(folder_.path);
  EXPECT_TRUE(arrays->check_unchanged().ok());
  write("a.npy", npy("<f4", "(10,)", 80));
  EXPECT_THAT(arrays->check_unchanged().error().message, HasSubstr("a.npy: was changed"));
}

}  // namespace
}  // namespace sluice::train
