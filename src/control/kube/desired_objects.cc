#include "control/kube/desired_objects.h"

#include <algorithm>

#include "base/log.h"
#include "kube/wait.h"

namespace sluice::control {
namespace {

using nlohmann::json;

ServingHistory history_from(const json& status) {
  ServingHistory out;
  for (const json& number : status.value("served", json::array()))
    if (number.is_number_integer()) out.push_back(number.get<int>());
  return out;
}

// A merge patch would keep fields that the new value lacks.
json replacing(const char* path, json value) {
  return json::array({{{"op", "replace"}, {"path", path}, {"value", std::move(value)}}});
}

boost::asio::awaitable<Result<std::vector<json>>> list(kube::Client& client, std::string path) {
  std::vector<json> out;
  std::string more;
  do {
    kube::Call call(path + "?limit=500");
    if (!more.empty()) call.target += "&continue=" + more;
    Result<json> page = co_await client.call(std::move(call));
    if (!page.ok()) co_return page.error();
    for (json& item : (*page)["items"]) out.push_back(std::move(item));
    more = page->value("/metadata/continue"_json_pointer, "");
  } while (!more.empty());
  co_return out;
}

}  // namespace

// A revision without its function's object is garbage, which Kubernetes collects.
Result<std::vector<StoredFunction>> DesiredObjects::functions() {
  SLUICE_ASSIGN(found, kube::run_on(client_.io(), list(client_, kRevisionsPath)));
  kept_.clear();
  for (const json& object : found) {
    const Result<RevisionObject> read = RevisionObject::parse(object);
    if (!read.ok()) {
      log::error("FunctionRevision {}", read.error().message);
      continue;
    }
    const FunctionName& name = read->revision.function;
    if (object_of(name) == nullptr) continue;
    StoredFunction& f = kept_[name];
    f.name = name;
    f.revisions.push_back(read->revision);
  }
  std::vector<StoredFunction> out;
  for (auto& [name, kept] : kept_) {
    StoredFunction& f = kept;  // clang captures no structured binding
    std::ranges::sort(f.revisions, {}, &Revision::number);
    const json& status = object_of(name)->status;
    f.last = f.revisions.back().number;
    f.newest = status.value("newest", f.last);
    f.serving = status.value("serving", f.newest);
    f.served = history_from(status);
    const auto is_there = [&f](int number) {
      return std::ranges::find(f.revisions, number, &Revision::number) != f.revisions.end();
    };
    if (!is_there(f.newest)) f.newest = f.last;
    if (!is_there(f.serving)) f.serving = f.newest;
    out.push_back(f);
  }
  return out;
}

Result<void> DesiredObjects::add_revision(const Revision& revision, int serving) {
  const auto owner = object_of(revision.function);
  if (owner == nullptr)
    return Error{ErrorKind::kNotFound, to_string(revision.function) + ": its object is gone"};
  const json object = to_object(revision, *owner);
  const std::string& space = revision.function.space;
  auto made = kube::run_on(
      client_.io(),
      client_.call(kube::Call(kube::verb::post, path_in(kRevisionsPath, space), object)));
  if (!made.ok() && made.error().kind == ErrorKind::kConflict)  // of a leader that did not get on
    made = kube::run_on(
        client_.io(), client_.call(kube::Call(
                          kube::verb::patch, path_in(kRevisionsPath, space, object_name(revision)),
                          replacing("/spec", object["spec"]), kube::kJsonPatch)));
  if (!made.ok()) return made.error();
  StoredFunction& f = kept_[revision.function];
  f.name = revision.function;
  f.revisions.push_back(revision);
  f.newest = f.last = revision.number;
  f.serving = serving;
  write_progress(f);
  return {};
}

Result<void> DesiredObjects::replace_spec(const Revision& revision) {
  for (Revision& r : kept_[revision.function].revisions)
    if (r.number == revision.number) r.spec = revision.spec;
  const auto owner = object_of(revision.function);
  if (owner == nullptr) return {};
  const std::string path = path_in(kRevisionsPath, revision.function.space, object_name(revision));
  writer_.put(
      path, kube::Call(kube::verb::patch, path,
                       replacing("/spec", to_object(revision, *owner)["spec"]), kube::kJsonPatch));
  return {};
}

void DesiredObjects::remove_object(const Revision& r) {
  const std::string path = path_in(kRevisionsPath, r.function.space, object_name(r));
  writer_.put(path, kube::Call(kube::verb::delete_, path));
}

Result<void> DesiredObjects::forget_revisions(const FunctionName& name, int oldest, int serving) {
  std::erase_if(kept_[name].revisions, [&](const Revision& r) {
    if (r.number >= oldest || r.number == serving) return false;
    remove_object(r);
    return true;
  });
  return {};
}

Result<void> DesiredObjects::set_revisions(const FunctionName& name, int newest, int serving,
                                           const ServingHistory& served) {
  StoredFunction& f = kept_[name];
  f.newest = newest;
  f.serving = serving;
  f.served = served;
  write_progress(f);
  return {};
}

Result<void> DesiredObjects::remove_function(const FunctionName& name) {
  const auto found = kept_.find(name);
  if (found == kept_.end()) return {};
  for (const Revision& r : found->second.revisions) remove_object(r);
  kept_.erase(found);
  return {};
}

void DesiredObjects::write_progress(const StoredFunction& f) {
  const std::string path = path_in(kFunctionsPath, f.name.space, f.name.name) + "/status";
  writer_.put(
      path + "#revisions",
      kube::Call(kube::verb::patch, path,
                 {{"status", {{"newest", f.newest}, {"serving", f.serving}, {"served", f.served}}}},
                 kube::kMergePatch));
}

}  // namespace sluice::control
