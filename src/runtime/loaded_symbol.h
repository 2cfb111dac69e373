// Finds a function of a library that is mapped, perhaps not yet initialised, without the dynamic
// loader: dlopen(RTLD_NOLOAD) from within another library's constructor would run initialisers out
// of order. Reads the library's GNU hash table. libc only, no allocation.
#pragma once

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

namespace sluice::runtime {

// https://flapenguin.me/elf-dt-gnu-hash; the loader has relocated the pointers of .dynamic.
// NOLINTBEGIN(performance-no-int-to-ptr): addresses are numbers here
class LoadedLibrary {
 public:
  explicit LoadedLibrary(const dl_phdr_info& info) : base_(info.dlpi_addr) {
    for (int i = 0; i < info.dlpi_phnum; ++i)
      if (info.dlpi_phdr[i].p_type == PT_DYNAMIC)
        read(reinterpret_cast<const ElfW(Dyn)*>(base_ + info.dlpi_phdr[i].p_vaddr));
  }

  void* function(const char* name) const {
    if (hash_ == nullptr || symbols_ == nullptr || names_ == nullptr) return nullptr;
    const uint32_t buckets = hash_[0], first = hash_[1], bloom_words = hash_[2];
    const auto* bucket = reinterpret_cast<const uint32_t*>(
        reinterpret_cast<const ElfW(Addr)*>(hash_ + 4) + bloom_words);
    const uint32_t* chain = bucket + buckets;
    const uint32_t wanted = hash_of(name);
    uint32_t i = buckets != 0 ? bucket[wanted % buckets] : 0;
    if (i < first) return nullptr;
    for (;; ++i) {
      const uint32_t hash = chain[i - first];  // its lowest bit ends the chain
      const ElfW(Sym)& symbol = symbols_[i];
      if ((hash | 1) == (wanted | 1) && symbol.st_shndx != SHN_UNDEF &&
          strcmp(names_ + symbol.st_name, name) == 0)
        return reinterpret_cast<void*>(base_ + symbol.st_value);
      if (hash & 1) return nullptr;
    }
  }

 private:
  static uint32_t hash_of(const char* name) {
    uint32_t h = 5381;
    for (; *name != 0; ++name) h = h * 33 + static_cast<unsigned char>(*name);
    return h;
  }

  void read(const ElfW(Dyn) * entry) {
    for (; entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == DT_GNU_HASH) hash_ = reinterpret_cast<const uint32_t*>(entry->d_un.d_ptr);
      if (entry->d_tag == DT_SYMTAB)
        symbols_ = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
      if (entry->d_tag == DT_STRTAB) names_ = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    }
  }

  ElfW(Addr) base_;
  const uint32_t* hash_ = nullptr;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* names_ = nullptr;
};
// NOLINTEND(performance-no-int-to-ptr)

}  // namespace sluice::runtime
