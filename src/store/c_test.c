/* The C API from C11, as its header shows it. Exits with 0, or with the step that failed. */
#include <string.h>

#include "wire/model_store.h"
#include "wire/store_message.h"

int sluice_test_store_from_c(int socket);

int sluice_test_store_from_c(int socket) {
  sluice_store* store = NULL;
  sluice_tensor* tensor = NULL;
  if (sluice_store_adopt(socket, &store) != SLUICE_OK) return 1;
  if (sluice_store_tensor(store, "w", 5, 0, &tensor) != SLUICE_OK) return 2;
  memcpy(tensor->data, "sluice", tensor->bytes);
  if (sluice_commit_tensor(store, tensor) != SLUICE_OK) return 3;
  if (sluice_release_tensor(store, tensor) != SLUICE_OK) return 4;
  if (sluice_get_tensor(store, "w", 0, &tensor) != SLUICE_NOT_FOUND) return 5;
  if (sluice_store_why(store)[0] == 0) return 6;
  sluice_store_close(store);
  return 0;
}
