// The operator: a client of the controller's own API, which carries users' objects to it and its
// listings back. An object's new specification is applied, a deleted object's function is deleted;
// statuses and Events follow. It keeps nothing that it could not read again.
//
// turn() is for one thread; it blocks as long as the API does, which is seconds while a model is
// checked. The informers and the writer are thread-safe.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "control/kube/function_status.h"
#include "control/kube/object_writer.h"
#include "control/kube/objects.h"
#include "kube/informer.h"
#include "wire/http/http.h"

namespace sluice::control {

class Operator {
 public:
  using Functions = kube::Informer<FunctionObject>;

  // `api`: the controller's. What is referred to outlives it; the informers are complete.
  Operator(wire::Endpoint api, const Functions& functions, const Functions& trainings,
           ObjectWriter& writer, std::string gateway = "");

  // Applies what has changed, and writes what is to be seen. An API that does not answer is asked
  // again at the next turn.
  void turn(UnixMillis wall);

 private:
  using Object = std::shared_ptr<const FunctionObject>;
  // From what a status was made that needed no write. Most of thousands do not change in a turn.
  struct Shown {
    Object object;
    nlohmann::json row;
  };
  struct Handled {
    std::string uid;
    Applying applying;
    std::string announced;  // why this generation was refused, by its last Event
    UnixMillis tried = 0;
    UnixMillis pause = 0;  // until a refused one is tried again; twice as long each time
    std::optional<Shown> shown;
  };
  struct Written {
    nlohmann::json news;
    UnixMillis at = 0;
  };
  using Rows = std::map<FunctionName, nlohmann::json>;

  Result<Rows> rows();
  // Return whether a listing is different now.
  bool apply_changed(const Functions::Objects& objects, const Rows& rows, UnixMillis wall);
  bool delete_others(const Functions::Objects& objects, const Rows& rows);
  // `announced`: why this generation was refused before; no Event repeats it.
  Applying apply(const FunctionObject& object, std::string& announced, UnixMillis wall);
  void show(Handled& handled, const Object& object, nlohmann::json row, UnixMillis wall);
  // Returns whether there is nothing to write.
  bool write_status(const FunctionObject& object, nlohmann::json status, UnixMillis wall);
  void write_events(const Functions::Objects& objects, UnixMillis wall);
  void refuse_trainings(UnixMillis wall);

  wire::HttpClient api_;
  const Functions& functions_;
  const Functions& trainings_;
  ObjectWriter& writer_;
  const std::string gateway_;  // where functions answer; empty: statuses do not say it
  std::map<FunctionName, Handled> handled_;
  std::map<std::string, Written> written_;  // statuses of the last seconds, by path
  int64_t last_decision_ = -1;              // −1: none was read yet
};

}  // namespace sluice::control
