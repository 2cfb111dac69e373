// What kind of library a hook is, that of the driver and that of NVML: nothing runs when it is
// loaded or unloaded, it needs libc alone, and of that nothing that a guest must not do; and
// exports the names alone of what it stands in front of, and (the driver) the marks of iterations.
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "tests/support/hooked_process.h"

namespace sluice::hook {
namespace {

using testing::ElementsAre;
using testing::StartsWith;

class Elf {
 public:
  explicit Elf(const char* path) {
    std::ifstream file(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
  }

  template <class T>
  std::vector<T> section(unsigned type) const {
    const auto* header = reinterpret_cast<const Elf64_Ehdr*>(bytes_.data());
    const auto* sections = reinterpret_cast<const Elf64_Shdr*>(bytes_.data() + header->e_shoff);
    for (int i = 0; i < header->e_shnum; ++i) {
      const auto* begin = reinterpret_cast<const T*>(bytes_.data() + sections[i].sh_offset);
      if (sections[i].sh_type == type) return {begin, begin + sections[i].sh_size / sizeof(T)};
    }
    return {};
  }

  std::set<int64_t> tags() const {
    std::set<int64_t> all;
    for (const Elf64_Dyn& d : section<Elf64_Dyn>(SHT_DYNAMIC)) all.insert(d.d_tag);
    return all;
  }

  // The strings of one dynamic tag.
  std::vector<std::string> strings(int64_t tag) const {
    std::vector<std::string> all;
    for (const Elf64_Dyn& d : section<Elf64_Dyn>(SHT_DYNAMIC))
      if (d.d_tag == tag) all.emplace_back(text(d.d_un.d_val));
    return all;
  }

  std::set<std::string> exports() const {
    return names([](const Elf64_Sym& s) { return s.st_shndx != SHN_UNDEF; });
  }
  std::set<std::string> imports() const {
    return names([](const Elf64_Sym& s) { return s.st_shndx == SHN_UNDEF; });
  }

  // The versions of other libraries' names: records chained by the distance to the next.
  std::vector<std::string> versions_needed() const {
    std::vector<std::string> all;
    const std::vector<char> records = section<char>(SHT_GNU_verneed);
    for (size_t at = 0; at < records.size();) {
      const auto* library = reinterpret_cast<const Elf64_Verneed*>(&records[at]);
      for (size_t i = 0, v = at + library->vn_aux; i < library->vn_cnt; ++i) {
        const auto* version = reinterpret_cast<const Elf64_Vernaux*>(&records[v]);
        all.push_back(text(version->vna_name));
        v += version->vna_next;
      }
      if (library->vn_next == 0) break;
      at += library->vn_next;
    }
    return all;
  }

  size_t thread_local_bytes() const {
    const auto* header = reinterpret_cast<const Elf64_Ehdr*>(bytes_.data());
    const auto* segments = reinterpret_cast<const Elf64_Phdr*>(bytes_.data() + header->e_phoff);
    for (int i = 0; i < header->e_phnum; ++i)
      if (segments[i].p_type == PT_TLS) return segments[i].p_memsz;
    return 0;
  }

 private:
  template <class Condition>
  std::set<std::string> names(Condition of) const {
    std::set<std::string> all;
    for (const Elf64_Sym& s : section<Elf64_Sym>(SHT_DYNSYM))
      if (of(s)) all.insert(text(s.st_name));
    return all;
  }

  // .dynstr is the first string table.
  std::string text(size_t offset) const {
    const std::vector<char> strings = section<char>(SHT_STRTAB);
    return strings.data() + offset;
  }

  std::vector<char> bytes_;
};

struct Library {
  const char *path, *soname;
  std::set<std::string> exports;
};

// The last name is that by which one hook knows another.
std::vector<Library> libraries() {
  return {
#define SLUICE_PASSED(name) #name,
#define SLUICE_HOOKED(name, ...) #name,
      {kHook,
       "libcuda.so.1",
       {
#include "hook/entry_points.inc"
           "sluice_iteration_begin", "sluice_iteration_end", "sluice_cuda_hook"}},
      {SLUICE_NVML_HOOK,
       "libnvidia-ml.so.1",
       {
#include "nvml/entry_points.inc"
           "sluice_nvml_hook"}},
#undef SLUICE_PASSED
#undef SLUICE_HOOKED
  };
}

class HookElfTest : public testing::TestWithParam<Library> {
 protected:
  const Elf hook_{GetParam().path};
};
INSTANTIATE_TEST_SUITE_P(, HookElfTest, testing::ValuesIn(libraries()),
                         [](const auto& i) { return i.index == 0 ? "Driver" : "Nvml"; });

TEST_P(HookElfTest, NothingRunsAtLoadOrExit) {
  const std::set<int64_t> tags = hook_.tags();
  ASSERT_TRUE(tags.contains(DT_SONAME));
  for (const int64_t tag : {DT_INIT, DT_INIT_ARRAY, DT_FINI, DT_FINI_ARRAY, DT_PREINIT_ARRAY})
    EXPECT_FALSE(tags.contains(tag)) << "tag " << tag;
}

TEST_P(HookElfTest, StandsInTheOthersPlaceAndNeedsLibcAlone) {
  EXPECT_THAT(hook_.strings(DT_SONAME), ElementsAre(GetParam().soname));
  EXPECT_THAT(hook_.strings(DT_NEEDED), ElementsAre(StartsWith("libc.so")));
}

// A newer one would keep every program of an older container from starting.
TEST_P(HookElfTest, LoadsWithAnyGlibcSince217) {
  const std::vector<std::string> versions = hook_.versions_needed();
  ASSERT_FALSE(versions.empty());
  for (const std::string& version : versions) {
    int major = 0, minor = 0;
    ASSERT_EQ(std::sscanf(version.c_str(), "GLIBC_%d.%d", &major, &minor), 2) << version;
    EXPECT_TRUE(major == 2 && minor <= 17) << version;
  }
}

TEST_P(HookElfTest, ExportsTheOthersNamesAlone) {
  EXPECT_EQ(hook_.exports(), GetParam().exports);
}

TEST_P(HookElfTest, ImportsNothingThatEndsTheProcessPrintsOrStartsThreadsOrProcesses) {
  const std::set<std::string> imports = hook_.imports();
  ASSERT_TRUE(imports.contains("memcpy") || imports.contains("syscall"));
  for (const char* name : {"exit",           "_exit",         "_Exit",
                           "quick_exit",     "abort",         "raise",
                           "kill",           "__assert_fail", "__stack_chk_fail",
                           "__fortify_fail", "atexit",        "__cxa_atexit",  //
                           "write",          "printf",        "__printf_chk",
                           "fprintf",        "__fprintf_chk", "puts",
                           "fputs",          "perror",        "fwrite",
                           "stdout",         "stderr",        "syslog",  //
                           "pthread_create", "thrd_create",   "clone",
                           "clone3",         "fork",          "vfork",
                           "posix_spawn",    "posix_spawnp",  "system",
                           "popen",          "execve",        "execv",
                           "execvp",         "daemon"})
    EXPECT_FALSE(imports.contains(name)) << name;
}

// A library that is opened late shares 512 bytes of static thread-local memory with all others.
TEST_P(HookElfTest, NeedsNextToNoThreadLocalMemory) {
  EXPECT_LE(hook_.thread_local_bytes(), 48u);
}

}  // namespace
}  // namespace sluice::hook
