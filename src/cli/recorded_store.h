// What a running platform has recorded, fetched through its API into a store of this machine's, for
// `sluice simulate --from-store`. The platform may be a cluster's.
//
// One thread. The file goes with this object.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "cli/session.h"

namespace sluice::cli {

class RecordedStore {
 public:
  static Result<std::unique_ptr<RecordedStore>> fetch(const Session& session);
  ~RecordedStore();
  RecordedStore(const RecordedStore&) = delete;

  std::string path() const { return folder_ + "/control.db"; }
  // Returns a scenario of all that is recorded, on the platform's devices. kInvalid: no whole
  // minute is recorded yet.
  Result<std::string> scenario(const Session& session) const;

 private:
  explicit RecordedStore(std::string folder) : folder_(std::move(folder)) {}
  Result<void> fill(const nlohmann::json& page) const;

  const std::string folder_;
};

}  // namespace sluice::cli
