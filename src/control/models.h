// The Models port: the contents that revisions serve. The loop names a model by its specification;
// its adapter alone knows where the bytes are, and keeps a content for as long as it is used,
// whatever becomes of the user's file. The local adapter copies files (model_copies.h).
//
// Threads: the loop's for for_start() and for_user(), which wait for nothing; any for the others.
// Several may keep() at once. check(), identify() and keep() take as long as a disk, or the server
// of a model, does; sweep() as a disk.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "base/result.h"
#include "model/function.h"

namespace sluice::control {

class Models {
 public:
  virtual ~Models() = default;

  // Returns the model as an order to start it has it: its node finds it by `path`.
  virtual ModelSpec for_start(const ModelSpec& model) const = 0;
  // Returns an error of its start in terms that its user knows: of the path in the specification.
  virtual std::string for_user(std::string error, const ModelSpec& model) const = 0;

  // Fills in the model's inputs and outputs, unless they are there. Returns kInvalid, with the
  // field or file, for what cannot be served.
  virtual Result<void> check(ModelSpec& model) const = 0;

  // While a Hold of a content lives, sweep() leaves the content alone. A Hold must not outlive the
  // adapter.
  using Hold = std::shared_ptr<void>;

  // Stores the name of what `model.path` holds, with the model's inputs and outputs, in
  // `model.content`.
  // Returns kInvalid if there is no such model.
  virtual Result<void> identify(ModelSpec& model) const = 0;
  // Does the same, and keeps the content. Returns kConflict if it changed meanwhile; kInternal if a
  // read failed, or there is no space. A failed keep() leaves nothing.
  virtual Result<Hold> keep(ModelSpec& model) = 0;
  // Sets the contents that revisions use. sweep() may remove every other content.
  virtual void set_used(std::set<std::string> contents) = 0;
  // Removes contents that neither a revision nor a Hold uses.
  virtual void sweep() = 0;
  // Makes every keep() and identify() fail with kUnavailable, running ones soon.
  virtual void stop() = 0;
};

}  // namespace sluice::control
