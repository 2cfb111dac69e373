// A stand-in for the API server, over plain HTTP, for tests: objects with versions, lists in pages,
// watches, merge patches, server-side apply as a merge, owners' garbage. It knows no schemas and no
// permissions but those that a test states.
//
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kube/config.h"

namespace sluice {

class FakeKube {
 public:
  FakeKube();
  ~FakeKube();
  FakeKube(const FakeKube&) = delete;

  kube::Config config() const;

  // Another's change, as by kubectl. `collection`: "/apis/sluice.dev/v1alpha1/inferencefunctions",
  // without a namespace. Returns the object as stored.
  nlohmann::json put(const std::string& collection, nlohmann::json object);
  void remove(const std::string& collection, const std::string& space, const std::string& name);
  std::optional<nlohmann::json> get(const std::string& collection, const std::string& space,
                                    const std::string& name) const;
  std::vector<nlohmann::json> all(const std::string& collection) const;

  // Ends every watch.
  void break_watches();
  // Watches from before now are answered 410.
  void forget_history();
  // From now on no call is answered, until `there` again.
  void set_there(bool there);
  // A status with which a call is refused; 0: it is not.
  using Refusal = std::function<int(const std::string& method, const std::string& path)>;
  void refuse(Refusal refusal);

  // Calls, as "GET /api/v1/pods", without their queries.
  std::vector<std::string> calls() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice
