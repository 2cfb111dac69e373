#include "store/book.h"

#include <algorithm>

namespace sluice::node {
namespace {

using What = StoreAnswer::What;

void refuse(StoreOutcome& outcome, StoreClient client, ErrorKind kind, std::string text) {
  outcome.answers.push_back({.to = client, .error = {kind, std::move(text)}});
}

StoreOutcome refused(StoreClient client, ErrorKind kind, std::string text) {
  StoreOutcome outcome;
  refuse(outcome, client, kind, std::move(text));
  return outcome;
}

std::string in_bytes(uint64_t bytes) {
  return std::to_string(bytes) + " bytes";
}

}  // namespace

// Division, not multiplication: clients choose the sizes.
uint64_t StoreBook::taken_by(uint64_t bytes) const {
  return (bytes / limits_.granule + (bytes % limits_.granule != 0 ? 1 : 0)) * limits_.granule;
}

Result<void> StoreBook::check_room(const std::string& owner, uint64_t bytes) const {
  const uint64_t most = std::min(limits_.capacity, limits_.per_owner);
  if (bytes == 0 || bytes > most)
    return Error{ErrorKind::kInvalid,
                 "bytes: " + std::to_string(bytes) + " is not 1 … " + std::to_string(most)};
  const uint64_t taken = taken_by(bytes);
  const auto owns = used_by_owner_.find(owner);
  const uint64_t owned = owns == used_by_owner_.end() ? 0 : owns->second;
  if (taken > limits_.capacity - used_)
    return Error{ErrorKind::kExhausted, in_bytes(bytes) + " do not fit: " + in_bytes(used_) +
                                            " of " + std::to_string(limits_.capacity) +
                                            " are taken"};
  if (taken > limits_.per_owner - owned)
    return Error{ErrorKind::kExhausted, in_bytes(bytes) + " do not fit: the owner has " +
                                            in_bytes(owned) + " of " +
                                            std::to_string(limits_.per_owner)};
  return {};
}

bool StoreBook::may_refer(StoreClient client, StoreOutcome& outcome) const {
  const auto known = clients_.find(client);
  if (known == clients_.end()) return true;
  if (known->second.references < limits_.references_per_client) return true;
  refuse(outcome, client, ErrorKind::kExhausted,
         "a connection may have " + std::to_string(limits_.references_per_client) + " tensors");
  return false;
}

StoreBook::Tensor* StoreBook::find(const Key& key, TensorNumber& number) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  number = found->second;
  return &tensors_.at(number);
}

StoreOutcome StoreBook::store(StoreClient client, const std::string& owner, const std::string& name,
                              uint64_t bytes) {
  StoreOutcome outcome;
  if (!may_refer(client, outcome)) return outcome;
  TensorNumber number = 0;
  const Tensor* known = find({owner, name}, number);
  if (known == nullptr) {
    begin(client, {owner, name}, bytes, outcome);
  } else if (known->bytes != bytes) {
    refuse(outcome, client, ErrorKind::kConflict,
           "'" + name + "' has " + in_bytes(known->bytes) + ", not " + std::to_string(bytes));
  } else if (known->filled) {
    share(number, client, outcome);
  } else {
    wait(number, client, true);
  }
  return outcome;
}

StoreOutcome StoreBook::get(StoreClient client, const std::string& owner, const std::string& name) {
  StoreOutcome outcome;
  if (!may_refer(client, outcome)) return outcome;
  TensorNumber number = 0;
  const Tensor* known = find({owner, name}, number);
  if (known == nullptr) {
    refuse(outcome, client, ErrorKind::kNotFound, "'" + name + "' is not in the store");
  } else if (known->filled) {
    share(number, client, outcome);
  } else {
    wait(number, client, false);
  }
  return outcome;
}

void StoreBook::begin(StoreClient client, const Key& key, uint64_t bytes, StoreOutcome& outcome) {
  if (const Result<void> room = check_room(key.first, bytes); !room.ok()) {
    outcome.answers.push_back({.to = client, .error = room.error()});
    return;
  }
  const TensorNumber number = ++last_;
  Tensor& tensor = tensors_[number];
  tensor.key = key;
  tensor.bytes = bytes;
  tensor.taken = taken_by(bytes);
  tensor.references[client] = 1;
  by_key_[key] = number;
  used_ += tensor.taken;
  used_by_owner_[key.first] += tensor.taken;
  ++clients_[client].references;
  outcome.answers.push_back({.to = client, .what = What::kFill, .tensor = number, .bytes = bytes});
}

void StoreBook::share(TensorNumber number, StoreClient client, StoreOutcome& outcome) {
  Tensor& tensor = tensors_.at(number);
  ++tensor.references[client];
  ++clients_[client].references;
  outcome.answers.push_back(
      {.to = client, .what = What::kShare, .tensor = number, .bytes = tensor.bytes});
}

void StoreBook::wait(TensorNumber number, StoreClient client, bool would_fill) {
  tensors_.at(number).waiting.push_back({client, would_fill});
  clients_[client].waits_for = number;
}

void StoreBook::stop_waiting(StoreClient client) {
  Client& waiter = clients_.at(client);
  std::erase_if(tensors_.at(waiter.waits_for).waiting,
                [client](const Waiter& w) { return w.client == client; });
  waiter.waits_for = 0;
}

StoreOutcome StoreBook::cancel(StoreClient client) {
  if (!waits(client)) return {};
  stop_waiting(client);
  return refused(client, ErrorKind::kTimeout, "another process is still filling it");
}

StoreOutcome StoreBook::commit(StoreClient client, TensorNumber number) {
  if (!fills(client, number))
    return refused(client, ErrorKind::kNotFound,
                   "tensor " + std::to_string(number) + " is not being filled by this connection");
  StoreOutcome outcome;
  Tensor& tensor = tensors_.at(number);
  tensor.filled = true;
  outcome.answers.push_back(
      {.to = client, .what = What::kCommitted, .tensor = number, .bytes = tensor.bytes});
  for (const Waiter& waiter : std::exchange(tensor.waiting, {})) {
    clients_.at(waiter.client).waits_for = 0;
    share(number, waiter.client, outcome);
  }
  return outcome;
}

StoreOutcome StoreBook::fail(StoreClient client, TensorNumber number, Error why) {
  SLUICE_CHECK(has(client, number), "a reference to what cannot be had");
  StoreOutcome outcome;
  outcome.answers.push_back({.to = client, .tensor = number, .error = std::move(why)});
  let_go(number, client, 1, outcome);
  return outcome;
}

StoreOutcome StoreBook::release(StoreClient client, TensorNumber number) {
  if (!has(client, number))
    return refused(client, ErrorKind::kNotFound,
                   "tensor " + std::to_string(number) + " is not this connection's");
  StoreOutcome outcome;
  outcome.answers.push_back({.to = client, .what = What::kReleased, .tensor = number});
  let_go(number, client, 1, outcome);
  return outcome;
}

StoreOutcome StoreBook::leave(StoreClient client) {
  StoreOutcome outcome;
  if (waits(client)) stop_waiting(client);
  std::vector<std::pair<TensorNumber, size_t>> had;
  for (const auto& [number, tensor] : tensors_)
    if (const auto mine = tensor.references.find(client); mine != tensor.references.end())
      had.emplace_back(number, mine->second);
  for (const auto& [number, references] : had) let_go(number, client, references, outcome);
  clients_.erase(client);
  return outcome;
}

void StoreBook::let_go(TensorNumber number, StoreClient client, size_t references,
                       StoreOutcome& outcome) {
  clients_.at(client).references -= references;
  const auto found = tensors_.find(number);
  Tensor& tensor = found->second;
  if ((tensor.references.at(client) -= references) == 0) tensor.references.erase(client);
  if (!tensor.references.empty()) return;
  used_ -= tensor.taken;
  if ((used_by_owner_.at(tensor.key.first) -= tensor.taken) == 0)
    used_by_owner_.erase(tensor.key.first);
  by_key_.erase(tensor.key);
  outcome.freed.push_back(number);
  Tensor abandoned = std::move(tensor);
  tensors_.erase(found);
  pass_on(std::move(abandoned), outcome);
}

// The first waiter that would fill it does. The others go on waiting, or learn that no client fills
// it.
void StoreBook::pass_on(Tensor abandoned, StoreOutcome& outcome) {
  TensorNumber successor = 0;
  std::deque<Waiter> others;
  for (const Waiter& waiter : abandoned.waiting) {
    if (successor != 0 || !waiter.would_fill) {
      others.push_back(waiter);
      continue;
    }
    clients_.at(waiter.client).waits_for = 0;
    begin(waiter.client, abandoned.key, abandoned.bytes, outcome);
    if (const auto begun = by_key_.find(abandoned.key); begun != by_key_.end())
      successor = begun->second;
  }
  for (const Waiter& waiter : others) {
    clients_.at(waiter.client).waits_for = 0;
    if (successor != 0)
      wait(successor, waiter.client, waiter.would_fill);
    else
      refuse(outcome, waiter.client, ErrorKind::kNotFound,
             "'" + abandoned.key.second + "': the client that began to store it has given up");
  }
}

bool StoreBook::has(StoreClient client, TensorNumber number) const {
  const auto found = tensors_.find(number);
  return found != tensors_.end() && found->second.references.contains(client);
}

bool StoreBook::fills(StoreClient client, TensorNumber number) const {
  return has(client, number) && !tensors_.at(number).filled;
}

bool StoreBook::waits(StoreClient client) const {
  const auto known = clients_.find(client);
  return known != clients_.end() && known->second.waits_for != 0;
}

}  // namespace sluice::node
