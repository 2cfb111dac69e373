// What the model store holds, and for whom: STORE and GET of FaST-GShare's model sharing (F8),
// without memory, sockets or processes. A tensor belongs to an owner, a word of the caller's; under
// another owner the same name is another tensor. The first client that stores a name fills it, all
// others share what it has filled. Whoever comes meanwhile waits: for the end of the filling, or,
// when the first one gives up or dies, to fill it in its place. A tensor is there as long as
// somebody has it.
//
// Pure: an event goes in, answers and what is free come out. Not thread-safe.
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
using TensorNumber = uint64_t;  // never used again

struct StoreLimits {
  uint64_t capacity = 0;   // bytes of all tensors together
  uint64_t per_owner = 0;  // and of one owner's
  uint64_t granule = 1;    // each takes up a multiple of this
  size_t references_per_client = 4096;
};

// What a client is told.
struct StoreAnswer {
  enum class What {
    kFill,       // it is the client's alone, until it commits
    kShare,      // it is filled, and the client has a reference
    kCommitted,  // it is filled, and shared by who filled it as by all others
    kReleased,
    kRefused,  // `error`
  };
  StoreClient to = 0;
  What what = What::kRefused;
  TensorNumber tensor = 0;
  uint64_t bytes = 0;
  Error error;
};

// What is to be done after an event: memory is freed before anything is answered.
struct StoreOutcome {
  std::vector<TensorNumber> freed;
  std::vector<StoreAnswer> answers;
};

class StoreBook {
 public:
  explicit StoreBook(const StoreLimits& limits) : limits_(limits) {}

  // Answered at once, or when the tensor is filled. A client asks one thing at a time.
  //   kInvalid   no size, or more than the store can ever hold
  //   kConflict  the name is taken by a tensor of another size
  //   kExhausted the store, the owner's part of it or the client's references are used up
  StoreOutcome store(StoreClient client, const std::string& owner, const std::string& name,
                     uint64_t bytes);
  // kNotFound: nobody has stored it, or whoever began to has given up.
  StoreOutcome get(StoreClient client, const std::string& owner, const std::string& name);

  // It waits no more: kTimeout. Nothing happens if it did not wait.
  StoreOutcome cancel(StoreClient client);
  // Its memory cannot be had: the client, which was to fill or share it, is told so instead.
  // REQUIRES: it has a reference
  StoreOutcome fail(StoreClient client, TensorNumber tensor, Error why);
  // The tensor is filled. kNotFound: this client does not fill it.
  StoreOutcome commit(StoreClient client, TensorNumber tensor);
  // One reference less; who fills it gives up. kNotFound: this client does not have it.
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
    std::map<StoreClient, size_t> references;  // while it is not filled: of who fills it
    std::deque<Waiter> waiting;                // while it is not filled
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
  std::map<StoreClient, Client> clients_;  // those that have had something, or waited
};

}  // namespace sluice::node
