// Where cuda.h is available: our header of the driver's interface agrees with cuda.h, and every
// name in it is compared.
#include "abi/cuda_abi.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <set>
#include <string_view>

#include "abi/cuda_abi_facts.h"

namespace {
std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns the words of the text that begin so, between the given strings before and after them.
std::set<std::string> words(const std::string& text, std::string_view before,
                            std::string_view beginning, std::string_view after) {
  const auto in_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  std::set<std::string> found;
  for (size_t begin = 0; begin < text.size(); ++begin) {
    if (!in_word(text[begin]) || (begin > 0 && in_word(text[begin - 1]))) continue;
    const size_t end =
        std::find_if_not(text.begin() + static_cast<ptrdiff_t>(begin), text.end(), in_word) -
        text.begin();
    const std::string_view left = std::string_view(text).substr(0, begin);
    const std::string_view right = std::string_view(text).substr(end);
    const std::string word = text.substr(begin, end - begin);
    if (left.ends_with(before) && word.starts_with(beginning) && right.starts_with(after))
      found.insert(word);
  }
  return found;
}

TEST(CudaAbi, IsThatOfCudaH) {
  EXPECT_EQ(facts_of_our_header(), facts_of_cuda_h());
}

TEST(CudaAbi, ListsEveryNameOfOurHeader) {
  const Facts facts = facts_of_our_header();
  const std::string types = text_of(SLUICE_ABI_FOLDER "/cuda_types.h");
  const std::string calls = text_of(SLUICE_ABI_FOLDER "/cuda_abi.h");
  const auto enumerators = words(types, "", "CU", " = ");
  const auto structures = words(types, "\n} ", "CU", ";");
  const auto functions = words(calls, "\nCUresult ", "cu", "(");
  ASSERT_GT(enumerators.size(), 80U);
  ASSERT_GT(structures.size(), 10U);
  ASSERT_GT(functions.size(), 100U);
  for (const auto& name : enumerators) EXPECT_TRUE(facts.contains("value of " + name)) << name;
  for (const auto& name : structures) EXPECT_TRUE(facts.contains("size of " + name)) << name;
  for (const auto& name : functions) EXPECT_TRUE(facts.contains("call " + name)) << name;
#define LISTED(name, value) EXPECT_TRUE(facts.contains("value of " #name)) << #name;
  SLUICE_CUDA_RESULTS(LISTED)
}
}  // namespace
