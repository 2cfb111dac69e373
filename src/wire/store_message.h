/* Messages between a process and the model store (docs/design/model-store.md), over a
 * SOCK_SEQPACKET connection, one message a datagram. The process asks one question at a time. Each
 * question has one answer, which the store sends when it has it. Only CANCEL may be sent while a
 * question is open: that question is then answered with TIMEOUT, unless its answer is on its way
 * already. Anything else ends the connection, and its end releases all its tensors.
 *
 * One machine, host byte order, append-only, every offset asserted. C11 and C++20; plain values. */
#ifndef SLUICE_WIRE_STORE_MESSAGE_H_
#define SLUICE_WIRE_STORE_MESSAGE_H_

#include <stdint.h>

#include "wire/layout.h"

#define SLUICE_STORE_MAGIC 0x5453454349554c53ull /* "SLUICEST" */
#define SLUICE_STORE_VERSION 1u
#define SLUICE_STORE_NAME 256u /* bytes of a name, the 0 at its end included */

enum sluice_store_type {
  SLUICE_ASK_STORE = 1,  /* name, bytes: to fill it, or to share it if it is filled */
  SLUICE_ASK_GET = 2,    /* name: to share it */
  SLUICE_ASK_COMMIT = 3, /* tensor: it is filled */
  SLUICE_ASK_RELEASE = 4,
  SLUICE_ASK_CANCEL = 5,
  SLUICE_TOLD_FILL = 16,  /* memory, with its handle, to write to */
  SLUICE_TOLD_SHARE = 17, /* the same, to read; also the answer to COMMIT */
  SLUICE_TOLD_DONE = 18,
  SLUICE_TOLD_REFUSED = 19 /* error, text */
};

/* Where the memory is, and the type of its handle. */
enum sluice_memory {
  SLUICE_MEMORY_HOST = 1,        /* a descriptor: a memfd, read-only for sharing processes */
  SLUICE_MEMORY_CUDA = 2,        /* a descriptor: of cuMemExportToShareableHandle */
  SLUICE_MEMORY_CUDA_LEGACY = 3, /* `handle`: a CUipcMemHandle */
  SLUICE_MEMORY_KINDS = 4
};

struct sluice_store_head {
  uint64_t magic;
  uint32_t version;
  uint32_t type;
};

struct sluice_store_request {
  struct sluice_store_head head;
  uint64_t bytes;
  uint64_t tensor;
  char name[SLUICE_STORE_NAME]; /* printable ASCII without spaces, ends in 0 */
};

struct sluice_store_answer {
  struct sluice_store_head head;
  uint64_t tensor;
  uint64_t bytes;     /* as it was stored */
  uint64_t mapped;    /* bytes to map: `bytes`, rounded up */
  uint32_t memory;    /* enum sluice_memory */
  uint32_t error;     /* enum sluice_error, of REFUSED */
  uint8_t device[16]; /* the GPU's UUID */
  uint8_t handle[64];
  char text[256]; /* of REFUSED, for people; ends in 0 */
};

SLUICE_AT(sluice_store_request, bytes, 16);
SLUICE_AT(sluice_store_request, tensor, 24);
SLUICE_AT(sluice_store_request, name, 32);
SLUICE_AT(sluice_store_answer, tensor, 16);
SLUICE_AT(sluice_store_answer, bytes, 24);
SLUICE_AT(sluice_store_answer, mapped, 32);
SLUICE_AT(sluice_store_answer, memory, 40);
SLUICE_AT(sluice_store_answer, error, 44);
SLUICE_AT(sluice_store_answer, device, 48);
SLUICE_AT(sluice_store_answer, handle, 64);
SLUICE_AT(sluice_store_answer, text, 128);
SLUICE_STATIC_ASSERT(sizeof(struct sluice_store_request) == 288, "sluice_store_request");
SLUICE_STATIC_ASSERT(sizeof(struct sluice_store_answer) == 384, "sluice_store_answer");

#endif /* SLUICE_WIRE_STORE_MESSAGE_H_ */
