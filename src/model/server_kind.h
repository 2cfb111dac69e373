// The kinds of server that an inference function may have, each said once: its name, the devices
// that it computes on, and how an instance of it is born. What a function runs is a content
// (ModelSpec) under a kind. The readers of contents are in control/local/model_check.cc: they read
// files. docs/design/servers.md adds a kind. Plain data; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "model/birth.h"
#include "model/function.h"

namespace sluice {

struct ServerKind {
  std::string_view name;      // in a function's file: model.modelFormat.name
  std::string_view platform;  // Triton's word, in a sidecar and in a content's description
  bool (*computes_on)(DeviceKind kind);
  bool described;  // its tensors: by a sidecar, or in the function's file
  // Of an instance, from the content as its node finds it.
  Birth (*birth)(const ModelSpec& model, const Batching& batching);
};

// The kind of a function with `server` in place of `model`.
inline constexpr std::string_view kProgram = "program";

std::span<const ServerKind> server_kinds();
const ServerKind* find_server_kind(std::string_view name);  // nullptr: unknown name

// REQUIRES: the model's format names a kind; files and stored specifications are checked for it.
const ServerKind& kind_of(const ModelSpec& model);

// Returns "torchscript", or "one of a, b": those of models' files.
std::string names_of_server_kinds();

// Returns why what the function runs does not compute where the function says; empty: it does. (A
// simulated function may run anywhere.)
std::string device_problem(const FunctionSpec& spec);

}  // namespace sluice
