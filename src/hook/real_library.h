// The library that a hook stands in front of: what the program would have got without us. Found at
// the first use and kept; no lock is held over the dynamic loader, so threads that come first at
// once may each open it, and find the same. Any thread at any time.
#pragma once

namespace sluice::hook {

class RealLibrary {
 public:
  // All strings stay. `file`: its name. `marker`: what a hook of it exports, and `self`, the
  // address of ours, tells a hook, this one or a copy of it, from the library itself. `chosen_by`:
  // the environment variable (a test's) that says the path alone.
  constexpr RealLibrary(const char* file, const char* marker, const void* self,
                        const char* chosen_by)
      : file_(file), marker_(marker), self_(self), chosen_by_(chosen_by) {}

  // Null: there is none, as far as can be seen now.
  void* open();
  // The address of its own function; null where there is no library, or it has no such function.
  void* function(const char* name);

 private:
  void* find() const;
  void* open_at(const char* path) const;
  void* open_in(const char* folder) const;
  void* open_where_the_loader_looks() const;

  const char *file_, *marker_;
  const void* self_;
  const char* chosen_by_;
  void* opened_ = nullptr;
};

// The entry-th of names that follow each other in one string, each with a zero after it: an array
// of pointers would be relocated in every process that maps us.
const char* name_in(const char* names, unsigned entry);

}  // namespace sluice::hook
