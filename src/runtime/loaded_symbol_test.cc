#include "runtime/loaded_symbol.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace sluice::runtime {
namespace {

// Returns the address by libc's own table, or nothing.
void* in_libc(const char* name) {
  struct Question {
    const char* name;
    void* answer;
  } question{name, nullptr};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        if (strstr(info->dlpi_name, "libc.so") == nullptr) return 0;
        auto* q = static_cast<Question*>(data);
        q->answer = LoadedLibrary(*info).function(q->name);
        return 1;
      },
      &question);
  return question.answer;
}

TEST(LoadedSymbol, IsWhatTheLoaderFinds) {
  void* libc = dlopen("libc.so.6", RTLD_LAZY);
  ASSERT_NE(libc, nullptr);
  for (const char* name : {"getpid", "qsort", "strerror", "setvbuf"})
    EXPECT_EQ(in_libc(name), dlsym(libc, name)) << name;
  dlclose(libc);
}

TEST(LoadedSymbol, IsNothingWhereThereIsNone) {
  EXPECT_EQ(in_libc("no_such_function_of_libc"), nullptr);
  EXPECT_EQ(in_libc(""), nullptr);
}

}  // namespace
}  // namespace sluice::runtime
