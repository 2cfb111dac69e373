// This machine's adapters of the loop's ports, below one data folder: the store, the node daemon's
// and the gateway's sockets, the copies of models, the job server.
//
// Owns them. The loop's thread, except where a port says otherwise.
#pragma once

#include <memory>
#include <string>

#include "control/local/cluster_local.h"
#include "control/local/local_training.h"
#include "control/local/model_copies.h"
#include "control/local/store.h"
#include "control/ports.h"
#include "predict/profile_table.h"

namespace sluice::control {

class LocalPorts {
 public:
  // `trainer`: the program sluice-trainer. `clock` outlives it.
  static Result<std::unique_ptr<LocalPorts>> open(const std::string& data,
                                                  const std::string& trainer, const Clock& clock,
                                                  Servers servers = {},
                                                  CheckpointCopies copies = {});

  Ports ports() {
    return {store_, store_, cluster_, predictor_, clock_, training_.get(), &models_};
  }

 private:
  LocalPorts(const std::string& data, Store store, const Clock& clock, Servers servers);

  Store store_;
  const Clock& clock_;
  ModelCopies models_;
  LocalCluster cluster_;
  predict::ProfileTable predictor_;
  std::unique_ptr<LocalTraining> training_;
};

}  // namespace sluice::control
