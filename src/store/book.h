// What the model store holds, and for which clients: STORE and GET of FaST-GShare's model sharing
// (ICPP '23), without memory, sockets or processes. A tensor belongs to an owner, a name of the
// caller's. Under another owner the same name is another tensor. The first client that stores a
// name fills it; all others share the filled tensor. A client that asks meanwhile waits until the
// tensor is filled, or fills it itself if the first client gives up or dies. A tensor exists as
// long as a client refers to it.
//
// Pure: an event goes in; answers and freed tensors come out. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace sluice::node {

using StoreClient = uint64_t;   // a connection
using TensorNumber = uint64_t;  // never reused

struct StoreLimits {
  uint64_t capacity = 0;   // bytes of all tensors together
  uint64_t per_owner = 0;  // of one owner's tensors
  uint64_t granule = 1;    // each tensor takes a multiple of this
  size_t references_per_client = 4096;
};

// An answer to a client.
struct StoreAnswer {
  enum class What {
    kFill,       // exclusive to the client, until it commits
    kShare,      // filled; the client has a reference
    kCommitted,  // filled, and shared by the client that filled it as by all others
    kReleased,
    kRefused,  // `error`
  };
  StoreClient to = 0;
  What what = What::kRefused;
  TensorNumber tensor = 0;
  uint64_t bytes = 0;
  Error error;
};

// The result of an event: memory is freed before any answer is sent.
struct StoreOutcome {
  std::vector<TensorNumber> freed;
  std::vector<StoreAnswer> answers;
};

class StoreBook {
 public:
  explicit StoreBook(const StoreLimits& limits) : limits_(limits) {}

  // Answered at once, or when the tensor is filled. A client has one open question.
  //   kInvalid   no size, or more than the store can ever hold
  //   kConflict  a tensor of another size has the name
  //   kExhausted the store, the owner's part of it or the client's references are used up
  StoreOutcome store(StoreClient client, const std::string& owner, const std::string& name,
                     uint64_t bytes);
  // Returns kNotFound if no client has stored it, or the client that fills it has given up.
  StoreOutcome get(StoreClient client, const std::string& owner, const std::string& name);

  // Ends the client's wait with kTimeout. Does nothing if it did not wait.
  StoreOutcome cancel(StoreClient client);
  // The tensor has no memory: the client that was to fill or share it gets `why` instead.
  // REQUIRES: it has a reference
  StoreOutcome fail(StoreClient client, TensorNumber tensor, Error why);
  // The tensor is filled. Returns kNotFound if this client does not fill it.
  StoreOutcome commit(StoreClient client, TensorNumber tensor);
  // Drops one reference; the client that fills the tensor gives up. Returns kNotFound if this
  // client does not have it.
  StoreOutcome release(StoreClient client, TensorNumber tensor);
  // The client is gone.
  StoreOutcome leave(StoreClient client);

  bool has(StoreClient client, TensorNumber tensor) const;
  bool fills(StoreClient client, TensorNumber tensor) const;
  bool waits(StoreClient client) const;
  uint64_t used() const { return used_; }
  size_t tensors() const { return tensors_.size(); }

 private:
  using Key = std::pair<std::string, std::string>;  // owner, name
  struct Waiter {
    StoreClient client;
    bool would_fill;
  };
  struct Tensor {
    Key key;
    uint64_t bytes = 0;
    uint64_t taken = 0;  // of the capacity
    bool filled = false;
    std::map<StoreClient, size_t> references;  // until it is filled: of the client that fills it
    std::deque<Waiter> waiting;                // until it is filled
  };
  struct Client {
    size_t references = 0;
    TensorNumber waits_for = 0;  // 0: it does not wait
  };

  uint64_t taken_by(uint64_t bytes) const;
  Result<void> check_room(const std::string& owner, uint64_t bytes) const;
  bool may_refer(StoreClient client, StoreOutcome& outcome) const;
  Tensor* find(const Key& key, TensorNumber& number);
  void begin(StoreClient client, const Key& key, uint64_t bytes, StoreOutcome& outcome);
  void share(TensorNumber number, StoreClient client, StoreOutcome& outcome);
  void wait(TensorNumber number, StoreClient client, bool would_fill);
  void let_go(TensorNumber number, StoreClient client, size_t references, StoreOutcome& outcome);
  void pass_on(Tensor abandoned, StoreOutcome& outcome);
  void stop_waiting(StoreClient client);

  const StoreLimits limits_;
  uint64_t used_ = 0;
  TensorNumber last_ = 0;
  std::map<TensorNumber, Tensor> tensors_;
  std::map<Key, TensorNumber> by_key_;
  std::map<std::string, uint64_t> used_by_owner_;
  std::map<StoreClient, Client> clients_;  // those that have had a tensor, or waited
};

}  // namespace sluice::node
