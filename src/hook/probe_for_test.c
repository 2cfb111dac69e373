/* A program as others write them: opens libcuda.so.1 by name, asks two things, prints the answers.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(void) {
  void* cuda = dlopen("libcuda.so.1", RTLD_NOW);
  int (*init)(unsigned);
  int (*synchronize)(void);
  if (cuda == NULL) {
    puts("no libcuda.so.1");
    return 0;
  }
  *(void**)&init = dlsym(cuda, "cuInit");
  *(void**)&synchronize = dlsym(cuda, "cuCtxSynchronize");
  printf("%d %d\n", init(0), synchronize());
  return 0;
}
