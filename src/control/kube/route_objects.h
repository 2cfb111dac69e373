// FunctionRoute objects: a function's routes as gateways read them, and the object that names the
// version of them all, which is written after them. Plain values.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "kube/informer.h"
#include "model/routing.h"

namespace sluice::control {

inline constexpr const char* kTableObject = "table";  // the object with the version

struct RouteObject {
  std::string name;
  RoutingTable table;  // of one function, or of none with the version of all

  static Result<RouteObject> parse(const nlohmann::json& object);
};

// The name of a function's object.
std::string route_object_name(const FunctionName& f);
// The object's `spec`; nullptr: that of the table's version alone.
nlohmann::json route_spec(int64_t version, const FunctionRoute* route);

// Joins them. kUnavailable: none names a version.
Result<RoutingTable> table_of(const kube::Informer<RouteObject>::Objects& objects);

}  // namespace sluice::control
