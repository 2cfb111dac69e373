/* The model store's C API: one copy of a model's tensors for all instances of a function
 * (FaST-GShare's STORE and GET). In libsluice_store.so; docs/design/model-store.md says how it
 * works.
 *
 *   sluice_store* store;
 *   sluice_tensor* weights;
 *   if (sluice_store_connect("/run/…/store.sock", &store) != SLUICE_OK) …;
 *   if (sluice_store_tensor(store, "resnet50", bytes, -1, &weights) != SLUICE_OK) …;
 *   if (weights->fill) {
 *     memcpy(weights->data, …, bytes);          // on a GPU: cuMemcpyHtoD, and wait for it
 *     sluice_commit_tensor(store, weights);     // from now on read-only, for everybody
 *   }
 *   … use weights->data …
 *   sluice_release_tensor(store, weights);      // its memory is free with the last user
 *   sluice_store_close(store);
 *
 * A tensor is `bytes` of memory under a name. The store does not look into it: a library may put
 * one tensor there, or all of a model. The first client that stores a name fills it; others that
 * store or get it wait until it is committed, and share it. If the first one dies or releases it
 * unfilled, one of the waiting storers fills it instead. A name means the same to all clients of
 * one owner, which the store's keeper assigns: instances of one function.
 *
 * Data is aligned to 4096 bytes at least. On the CPU it is `data` in this process, and after the
 * commit no process can ever write it, the storer included. On a GPU `data` is a device address,
 * for the context that was current, and read-only unless it came by a legacy handle.
 *
 * Threads: a connection belongs to one thread at a time; mapped tensors may be read by all. After a
 * fork the child may read tensors mapped on the CPU, and its open end of the connection keeps them
 * there; its calls return SLUICE_DENIED. When the store has died, calls return SLUICE_UNAVAILABLE;
 * mapped tensors stay, except those of legacy handles, whose memory was the store's.
 *
 * Never exits, throws or prints. C11 and C++20. */
#ifndef SLUICE_WIRE_MODEL_STORE_H_
#define SLUICE_WIRE_MODEL_STORE_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum sluice_error {
  SLUICE_OK = 0,
  SLUICE_INVALID = 1,     /* can never be right: a name or size that is not allowed */
  SLUICE_DENIED = 2,      /* not for this process */
  SLUICE_NOT_FOUND = 3,   /* GET: no client has stored it */
  SLUICE_CONFLICT = 4,    /* STORE: the name has another size */
  SLUICE_EXHAUSTED = 5,   /* the store is full, or there is no memory */
  SLUICE_UNAVAILABLE = 6, /* there is no store */
  SLUICE_TIMEOUT = 7,     /* another process is still filling it */
  SLUICE_FAULT = 8        /* the system, or the driver, failed us */
};

typedef struct sluice_store sluice_store; /* a connection */

typedef struct sluice_tensor {
  void* data;
  uint64_t bytes;
  int fill;    /* 1: it is this process's to write and to commit; 0: to read */
  int on_cuda; /* 1: `data` is a device's address */
} sluice_tensor;

/* `path`: the socket where the store listens. */
enum sluice_error sluice_store_connect(const char* path, sluice_store** store);
/* Adopts a connected socket that was handed to this process. */
enum sluice_error sluice_store_adopt(int socket, sluice_store** store);
/* Releases the connection's tensors, and frees it. NULL is allowed. */
void sluice_store_close(sluice_store* store);

/* STORE. `name`: 1 … 255 printable ASCII characters without spaces. Waits for another storer of the
 * same name for at most `wait_ms` milliseconds; negative: as long as it takes. On success the
 * caller has one reference, in `*tensor`, until sluice_release_tensor. */
enum sluice_error sluice_store_tensor(sluice_store* store, const char* name, uint64_t bytes,
                                      int64_t wait_ms, sluice_tensor** tensor);
/* GET. The caller never fills `*tensor`. */
enum sluice_error sluice_get_tensor(sluice_store* store, const char* name, int64_t wait_ms,
                                    sluice_tensor** tensor);
/* Makes the written tensor readable for all. All work that writes it must have ended. Its address
 * stays; on failure it stays writable, and the caller's to fill. */
enum sluice_error sluice_commit_tensor(sluice_store* store, sluice_tensor* tensor);
/* Unmaps the tensor and drops the reference; gives up filling it if it is not committed. Frees
 * `tensor`, whatever it returns. */
enum sluice_error sluice_release_tensor(sluice_store* store, sluice_tensor* tensor);

/* Returns why the last call over this connection failed, for people; valid until the next call. */
const char* sluice_store_why(const sluice_store* store);

#ifdef __cplusplus
}
#endif
#endif /* SLUICE_WIRE_MODEL_STORE_H_ */
