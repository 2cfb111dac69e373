// The messages between the node daemon, the zygote, templates and instances
// (docs/design/processes.md). Three kinds of SOCK_SEQPACKET socket pairs, all made by the daemon:
//
//   daemon ⇄ zygote     StartTemplate + [template's socket, store]   → Started + [pidfd] | Failed
//   daemon ⇄ template   (by itself, once the model is warm)          → Ready | Failed
//                       StartInstance + [listening, control, log]    → Started + [pidfd] | Failed
//                       StartProgram + [plan, control, log]          → Started + [pidfd] | Failed
//   daemon ⇄ instance   Go + [permit page, usage page, bell]         → Ready | Failed
//                       Resize, Drain
//
// Zygote and template answer requests in order, and end when the daemon's end closes. An instance
// then serves on; SIGTERM drains it as Drain does. It waits for Go before it touches its model: by
// then the daemon has put it into its cgroup. Go without descriptors means: register at
// `permit_socket`, or run ungated if that is empty too.
//
// Plain structs, host byte order (one machine), strings end in 0. A larger message of a newer
// version is read by its known part.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "wire/packet.h"

namespace sluice::wire {

inline constexpr uint32_t kZygoteVersion = 1;

enum class ZygoteKind : uint32_t {
  kStartTemplate = 1,
  kStartInstance = 2,
  kGo = 3,
  kResize = 4,
  kDrain = 5,
  kStartProgram = 6,
  kStarted = 16,
  kReady = 17,
  kFailed = 18,
};

struct ZygoteHead {
  uint32_t version = kZygoteVersion;
  ZygoteKind kind;
};

// Loads a model and keeps it warm for instances to be forked from. Descriptors: the template's end
// of its socket pair, and a connection to the model store if weights are to be shared with other
// templates.
struct StartTemplate {
  ZygoteHead head{.kind = ZygoteKind::kStartTemplate};
  uint32_t warm_batch = 1;  // batch size of the warming inference
  uint32_t uid = 0;         // and gid: the template's and its instances'; 0: the zygote's
  char model_path[4096] = {};
};

// Three descriptors, in this order: listening socket, the instance's end of its control socket,
// log.
struct StartInstance {
  ZygoteHead head{.kind = ZygoteKind::kStartInstance};
  char id[128] = {};
  char model_name[256] = {};   // as clients call it: /v2/models/NAME/infer
  uint32_t model_version = 1;  // the revision
  uint32_t batch = 1;          // inferences that it runs at a time
  uint64_t max_delay_ns = 0;
  uint32_t max_batch = 1;  // inferences that a request may carry; above `batch` they run in parts
  uint32_t reserved = 0;
};

// To a template of Python (python/sluice_template.py), which says Ready or Failed as a model's
// does. Three descriptors, in this order: the plan, the instance's end of its control socket, log.
// The plan is a sealed file of texts that each end in a NUL: the working folder, the number of
// words, the words from the script on, then the variables, NAME=VALUE. The fork reads it after Go,
// and is drained by SIGTERM alone.
struct StartProgram {
  ZygoteHead head{.kind = ZygoteKind::kStartProgram};
};

// Three descriptors, in this order: permit page, usage page, bell. Or none.
struct Go {
  ZygoteHead head{.kind = ZygoteKind::kGo};
  uint32_t threads = 1;  // cores of its slice, rounded up
  uint32_t reserved = 0;
  char permit_socket[108] = {};  // where to register again after the daemon's restart
};

struct Resize {
  ZygoteHead head{.kind = ZygoteKind::kResize};
  uint32_t threads = 1;
  uint32_t reserved = 0;
};

struct Drain {
  ZygoteHead head{.kind = ZygoteKind::kDrain};
};

// One descriptor: the pidfd, opened by the parent before the child could be reaped.
struct Started {
  ZygoteHead head{.kind = ZygoteKind::kStarted};
  int32_t pid = 0;
  uint32_t reserved = 0;
};

struct Ready {
  ZygoteHead head{.kind = ZygoteKind::kReady};
  uint64_t load_ns = 0;  // template: load and warm-up; instance: Go to listening
};

struct Failed {
  ZygoteHead head{.kind = ZygoteKind::kFailed};
  uint32_t error_kind = 0;  // ErrorKind
  uint32_t reserved = 0;
  char message[1024] = {};
};

template <class M>
concept ZygoteMessage = std::is_trivially_copyable_v<M> && requires(M m) {
  m.head.kind;
};

// REQUIRES: text fits (callers check paths and names at their own boundary).
template <size_t N>
void set_text(char (&field)[N], std::string_view text) {
  SLUICE_CHECK(text.size() < N, text);
  std::memcpy(field, text.data(), text.size());
  field[text.size()] = 0;
}

// An error message is cut rather than refused.
inline Failed failed(const Error& error) {
  Failed m;
  m.error_kind = static_cast<uint32_t>(error.kind);
  set_text(m.message, std::string_view(error.message).substr(0, sizeof m.message - 1));
  return m;
}
inline Error error_of(const Failed& m) {
  return {static_cast<ErrorKind>(m.error_kind), m.message};
}

template <ZygoteMessage M>
Result<void> send_message(int socket, const M& m, std::span<const int> fds = {}) {
  return send_packet(socket, std::as_bytes(std::span(&m, 1)), fds);
}

inline Result<ZygoteKind> kind_of(const Packet& packet) {
  ZygoteHead head{.kind = ZygoteKind::kFailed};
  if (packet.bytes.size() < sizeof head)
    return Error{ErrorKind::kInvalid, "a message without a head"};
  std::memcpy(&head, packet.bytes.data(), sizeof head);
  if (head.version < kZygoteVersion)
    return Error{ErrorKind::kInvalid, "a message of version " + std::to_string(head.version)};
  return head.kind;
}

// Returns the packet as M, if it is one; every text field is terminated.
template <ZygoteMessage M>
Result<M> message_of(const Packet& packet, size_t descriptors = 0) {
  M m;
  SLUICE_ASSIGN(kind, kind_of(packet));
  if (kind != m.head.kind)
    return Error{ErrorKind::kInvalid, "a message of kind " +
                                          std::to_string(static_cast<uint32_t>(kind)) +
                                          " where it has no place"};
  if (packet.bytes.size() < sizeof m || packet.fds.size() < descriptors)
    return Error{ErrorKind::kInvalid, "a message cut short"};
  std::memcpy(&m, packet.bytes.data(), sizeof m);
  if constexpr (requires { m.model_path; }) m.model_path[sizeof m.model_path - 1] = 0;
  if constexpr (requires { m.id; }) m.id[sizeof m.id - 1] = 0;
  if constexpr (requires { m.model_name; }) m.model_name[sizeof m.model_name - 1] = 0;
  if constexpr (requires { m.permit_socket; }) m.permit_socket[sizeof m.permit_socket - 1] = 0;
  if constexpr (requires { m.message; }) m.message[sizeof m.message - 1] = 0;
  return m;
}

}  // namespace sluice::wire
