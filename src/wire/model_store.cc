#include "wire/model_store.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/system_error.h"
#include "wire/packet.h"
#include "wire/permit_steps.h"
#include "wire/store_error.h"
#include "wire/store_mapping.h"

using sluice::Error;
using sluice::ErrorKind;
using sluice::Fd;
using sluice::Result;

namespace {

// The caller's view of a tensor, and its mapping.
struct Tensor : sluice_tensor {
  uint64_t number = 0;
  std::unique_ptr<sluice::wire::StoreMapping> mapping;
};

struct Answer {
  sluice_store_answer message;
  Fd handle;
};

// Returns the packet if it is an answer: of a known type, whole, its text terminated.
Result<Answer> parse(sluice::wire::Packet packet) {
  Answer answer{};
  sluice_store_answer& m = answer.message;
  if (packet.bytes.size() < sizeof m)
    return Error{ErrorKind::kUnavailable, "what answers is not a model store"};
  std::memcpy(&m, packet.bytes.data(), sizeof m);
  if (m.head.magic != SLUICE_STORE_MAGIC || m.head.version < SLUICE_STORE_VERSION)
    return Error{ErrorKind::kUnavailable, "what answers is not a model store"};
  m.text[sizeof m.text - 1] = 0;
  if (m.head.type == SLUICE_TOLD_REFUSED)
    return Error{sluice::wire::error_kind_of(m.error),
                 m.text[0] != 0 ? m.text : "the store refused without a word"};
  if (!packet.fds.empty()) answer.handle = std::move(packet.fds[0]);
  return answer;
}

sluice_store_request request(sluice_store_type type) {
  sluice_store_request m{};
  m.head = {SLUICE_STORE_MAGIC, SLUICE_STORE_VERSION, static_cast<uint32_t>(type)};
  return m;
}

// Checked here too: the store ends connections that send an invalid one.
Result<sluice_store_request> request(sluice_store_type type, std::string_view name) {
  sluice_store_request m = request(type);
  if (name.empty() || name.size() >= sizeof m.name ||
      !std::ranges::all_of(name, [](char c) { return c > ' ' && c < 0x7f; }))
    return Error{ErrorKind::kInvalid,
                 "name: is not 1 … 255 printable ASCII characters without spaces"};
  name.copy(m.name, name.size());
  return m;
}

}  // namespace

struct sluice_store {
  explicit sluice_store(Fd connected) : socket(std::move(connected)) {}

  enum sluice_error obtain(const Result<sluice_store_request>& question, int64_t wait_ms,
                           sluice_tensor** tensor);
  Result<sluice_tensor*> obtain(const sluice_store_request& question, int64_t wait_ms);
  Result<Answer> ask(const sluice_store_request& question, int64_t wait_ms);
  Result<void> send(const sluice_store_request& message) const;
  Result<void> commit(Tensor& tensor);
  Result<void> release(Tensor& tensor);
  Result<Tensor*> find(const sluice_tensor* tensor) const;

  // Returns the code of an outcome; keeps its text for sluice_store_why.
  template <class T>
  enum sluice_error tell(const Result<T>& outcome) {
    why = outcome.ok() ? "" : outcome.error().message;
    return outcome.ok() ? SLUICE_OK : sluice::wire::store_error_of(outcome.error().kind);
  }

  const Fd socket;
  const pid_t owner = ::getpid();
  std::vector<std::unique_ptr<Tensor>> tensors;
  std::string why;
};

Result<void> sluice_store::send(const sluice_store_request& message) const {
  // The child of a fork shares its parent's connection: two talking processes would receive each
  // other's answers.
  if (::getpid() != owner)
    return Error{ErrorKind::kDenied, "the connection is the parent process's: make another"};
  return sluice::wire::send_packet(socket.get(), std::as_bytes(std::span(&message, 1)));
}

Result<Answer> sluice_store::ask(const sluice_store_request& question, int64_t wait_ms) {
  SLUICE_TRY(send(question));
  SLUICE_STEP("ask: sent");
  const sluice::SteadyClock clock;
  const sluice::Time begin = clock.now();
  for (bool waits = wait_ms >= 0; waits;) {
    const int64_t left = wait_ms - (clock.now() - begin) / sluice::Millis(1);
    pollfd polled{socket.get(), POLLIN, 0};
    const int ready =
        ::poll(&polled, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000'000)));
    if (ready > 0) break;
    if (ready < 0 || left > 0) continue;
    // It still gets an answer: TIMEOUT, or the one that was on its way.
    SLUICE_TRY(send(request(SLUICE_ASK_CANCEL)));
    waits = false;
  }
  SLUICE_ASSIGN(packet, sluice::wire::receive_packet(socket.get()));
  return parse(std::move(packet));
}

enum sluice_error sluice_store::obtain(const Result<sluice_store_request>& question,
                                       int64_t wait_ms, sluice_tensor** tensor) {
  *tensor = nullptr;
  if (!question.ok()) return tell(question);
  const Result<sluice_tensor*> obtained = obtain(*question, wait_ms);
  if (obtained.ok()) *tensor = *obtained;
  return tell(obtained);
}

Result<sluice_tensor*> sluice_store::obtain(const sluice_store_request& question, int64_t wait_ms) {
  SLUICE_ASSIGN(answer, ask(question, wait_ms));
  SLUICE_STEP("obtain: answered");
  const sluice_store_answer& m = answer.message;
  if (m.head.type != SLUICE_TOLD_FILL && m.head.type != SLUICE_TOLD_SHARE)
    return Error{ErrorKind::kUnavailable, "the store answered out of turn"};
  auto tensor = std::make_unique<Tensor>();
  tensor->number = m.tensor;
  tensor->bytes = m.bytes;
  tensor->fill = m.head.type == SLUICE_TOLD_FILL ? 1 : 0;
  Result<std::unique_ptr<sluice::wire::StoreMapping>> mapping =
      sluice::wire::StoreMapping::map(m, std::move(answer.handle));
  if (!mapping.ok()) {
    (void)release(*tensor);
    return mapping.error();
  }
  SLUICE_STEP("obtain: mapped");
  tensor->mapping = std::move(*mapping);
  tensor->data = tensor->mapping->data();
  tensor->on_cuda = tensor->mapping->on_cuda() ? 1 : 0;
  tensors.push_back(std::move(tensor));
  return tensors.back().get();
}

Result<void> sluice_store::commit(Tensor& tensor) {
  if (tensor.fill == 0) return Error{ErrorKind::kInvalid, "tensor: is not to be filled"};
  SLUICE_TRY(tensor.mapping->stop_writing());
  SLUICE_STEP("commit: nothing is written");
  sluice_store_request question = request(SLUICE_ASK_COMMIT);
  question.tensor = tensor.number;
  Result<Answer> answer = ask(question, -1);
  if (!answer.ok()) {
    SLUICE_TRY(tensor.mapping->resume());
    return answer.error();
  }
  SLUICE_STEP("commit: answered");
  tensor.fill = 0;
  return tensor.mapping->read_only(std::move(answer->handle));
}

// Unmapped before the store is informed: it may free a tensor without references.
Result<void> sluice_store::release(Tensor& tensor) {
  tensor.mapping.reset();
  SLUICE_STEP("release: unmapped");
  sluice_store_request question = request(SLUICE_ASK_RELEASE);
  question.tensor = tensor.number;
  SLUICE_ASSIGN(answer, ask(question, -1));
  (void)answer;
  SLUICE_STEP("release: answered");
  return {};
}

Result<Tensor*> sluice_store::find(const sluice_tensor* tensor) const {
  for (const std::unique_ptr<Tensor>& mine : tensors)
    if (mine.get() == tensor) return mine.get();
  return Error{ErrorKind::kInvalid, "tensor: is not this connection's"};
}

enum sluice_error sluice_store_connect(const char* path, sluice_store** store) {
  *store = nullptr;
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof at.sun_path) return SLUICE_INVALID;
  ::strncpy(at.sun_path, path, sizeof at.sun_path - 1);
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return SLUICE_FAULT;
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0)
    return errno == EACCES ? SLUICE_DENIED : SLUICE_UNAVAILABLE;
  *store = new sluice_store(std::move(socket));
  return SLUICE_OK;
}

enum sluice_error sluice_store_adopt(int socket, sluice_store** store) {
  *store = new sluice_store(Fd(socket));
  return SLUICE_OK;
}

void sluice_store_close(sluice_store* store) {
  delete store;  // unmaps tensors before the socket closes: the store may free them then
}

enum sluice_error sluice_store_tensor(sluice_store* store, const char* name, uint64_t bytes,
                                      int64_t wait_ms, sluice_tensor** tensor) {
  Result<sluice_store_request> question = request(SLUICE_ASK_STORE, name);
  if (question.ok()) question->bytes = bytes;
  return store->obtain(question, wait_ms, tensor);
}

enum sluice_error sluice_get_tensor(sluice_store* store, const char* name, int64_t wait_ms,
                                    sluice_tensor** tensor) {
  return store->obtain(request(SLUICE_ASK_GET, name), wait_ms, tensor);
}

enum sluice_error sluice_commit_tensor(sluice_store* store, sluice_tensor* tensor) {
  const Result<Tensor*> mine = store->find(tensor);
  if (!mine.ok()) return store->tell(mine);
  return store->tell(store->commit(**mine));
}

enum sluice_error sluice_release_tensor(sluice_store* store, sluice_tensor* tensor) {
  const Result<Tensor*> mine = store->find(tensor);
  if (!mine.ok()) return store->tell(mine);
  const Result<void> released = store->release(**mine);
  std::erase_if(store->tensors, [tensor](const auto& t) { return t.get() == tensor; });
  return store->tell(released);
}

const char* sluice_store_why(const sluice_store* store) {
  return store->why.c_str();
}
