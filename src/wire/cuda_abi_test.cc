// Where cuda.h is at hand: our header of the driver's interface says what cuda.h says, and every
// name in it is compared.
#include "wire/cuda_abi.h"

#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "wire/cuda_abi_facts.h"

namespace {
std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::set<std::string> matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it)
    found.insert((*it)[1]);
  return found;
}

TEST(CudaAbi, IsThatOfCudaH) {
  EXPECT_EQ(facts_of_our_header(), facts_of_cuda_h());
}

TEST(CudaAbi, ListsEveryNameOfOurHeader) {
  const Facts facts = facts_of_our_header();
  const std::string types = text_of(SLUICE_WIRE_FOLDER "/cuda_types.h");
  const std::string calls = text_of(SLUICE_WIRE_FOLDER "/cuda_abi.h");
  const auto enumerators = matches(types, R"(\b(CU\w+) = \d)");
  const auto structures = matches(types, R"(\n\} (CU\w+);)");
  const auto functions = matches(calls, R"(\nCUresult (cu\w+)\()");
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
