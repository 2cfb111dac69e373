// The models of a cluster: checked and named as on one machine, by the controller's own files, and
// found by instances at the same path in their image. What another image has is not seen here; and
// a program's secrets are objects beside its Pods, which the kubelet reads.
#pragma once

#include "control/models.h"
#include "control/spec/model_url.h"
#include "model/server_kind.h"

namespace sluice::control {

class KubeModels : public Models {
 public:
  explicit KubeModels(Models& files) : files_(files) {}

  ModelSpec for_start(const ModelSpec& model) const override { return model; }
  std::string for_user(std::string error, const ModelSpec&) const override { return error; }
  Result<void> check(ModelSpec& model) const override {
    if (model.format != kProgram) return files_.check(model);
    ModelSpec program = model;
    program.program.env.clear();
    return model.program.image.empty() ? files_.check(program) : Result<void>();
  }
  Result<void> identify(ModelSpec& model) const override { return files_.identify(model); }
  // A file stays in its image as it is: it needs no copy.
  Result<Hold> keep(ModelSpec& model) override {
    if (model.format == kProgram || is_url(model.path)) return files_.keep(model);
    SLUICE_TRY(files_.identify(model));
    return Hold();
  }
  void set_used(std::set<std::string> contents) override { files_.set_used(std::move(contents)); }
  void sweep() override { files_.sweep(); }
  void stop() override { files_.stop(); }

 private:
  Models& files_;
};

}  // namespace sluice::control
