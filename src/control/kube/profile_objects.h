// Measurements as FunctionProfile objects, so that the loss of the controller's volume costs no
// measuring again. They belong to a model's content and a type of device, not to one function, so
// they lie in the platform's namespace, and outlive functions.
//
// One thread, the loop's, while another runs the client's io_context.
#pragma once

#include "control/kube/object_writer.h"
#include "control/profiles.h"
#include "kube/client.h"

namespace sluice::control {

class ProfileObjects {
 public:
  // `space`: the platform's namespace.
  ProfileObjects(kube::Client& client, ObjectWriter& writer, std::string space)
      : client_(client), writer_(writer), space_(std::move(space)) {}

  // An object that cannot be read stops nothing else: the log names it.
  Result<Profiles> read();
  // Is written by the writer, as soon as the API server answers.
  void save(const Profile& profile);

 private:
  kube::Client& client_;
  ObjectWriter& writer_;
  const std::string space_;
};

}  // namespace sluice::control
