/* A program as others write them: opens libcuda.so.1 by name, or as it is told, asks two things,
 * prints the answers.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char** words) {
  const char* name = count > 1 ? words[1] : "libcuda.so.1";
  void* cuda = dlopen(name, RTLD_NOW);
  int (*init)(unsigned);
  int (*synchronize)(void);
  int (*address_of)(const char*, void**, int, unsigned long, int*);
  void* launch = NULL;
  if (cuda == NULL) {
    printf("no %s\n", name);
    return 0;
  }
  *(void**)&init = dlsym(cuda, "cuInit");
  *(void**)&synchronize = dlsym(cuda, "cuCtxSynchronize");
  *(void**)&address_of = dlsym(cuda, "cuGetProcAddress_v2");
  printf("%d %d", init(0), synchronize());
  if (address_of("cuLaunchKernel", &launch, 13000, 0, NULL) != 0)
    puts(" none");
  else
    puts(launch == dlsym(cuda, "cuLaunchKernel") ? " its" : " another");
  return 0;
}
