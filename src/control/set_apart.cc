#include "control/set_apart.h"

#include <algorithm>

namespace sluice::control {
namespace {

// Ids of instances, and so files and control groups, begin with the name.
bool is_label(const std::string& text) {
  constexpr size_t kLongest = 63;
  const auto allowed = [](unsigned char c) { return c > ' ' && c < 127 && c != '/'; };
  return !text.empty() && text.size() <= kLongest && std::ranges::all_of(text, allowed);
}

std::string kind_of(const Revision& r) {
  return r.spec.is_inference() ? "an inference function" : "a training function";
}

std::string fault_of(const StoredFunction& f, const Revision& r) {
  const std::string number = "revision " + std::to_string(r.number);
  if (r.number <= 0) return number + " has no number of a revision";
  if (r.spec.name != f.name) return number + " is of another function, " + to_string(r.spec.name);
  const Revision& first = f.revisions.front();
  if (r.spec.is_inference() != first.spec.is_inference())
    return "revision " + std::to_string(first.number) + " is " + kind_of(first) + ", " + number +
           " is " + kind_of(r);
  return "";
}

}  // namespace

std::string fault_of(const StoredFunction& f) {
  if (!is_label(f.name.space) || !is_label(f.name.name)) return "its name is none of a function";
  if (f.revisions.empty()) return "none of its stored revisions can be read";
  for (const Revision& r : f.revisions)
    if (std::string fault = fault_of(f, r); !fault.empty()) return fault;
  for (const int number : {f.newest, f.serving})
    if (std::ranges::find(f.revisions, number, &Revision::number) == f.revisions.end())
      return "there is no revision " + std::to_string(number);
  return "";
}

Result<void> check_path(const FunctionName& name, const FunctionName& other) {
  if (name == other || served_name(name) != served_name(other)) return {};
  return Error{ErrorKind::kInvalid, "metadata.name: clients would call it " + served_name(name) +
                                        ", which is " + to_string(other) +
                                        " already: give one of the two another name"};
}

std::string said_of(const SetApart& apart) {
  return "It is set apart: " + apart.why +
         ". It cannot be called, and its instances are left as they are. Apply its file again, or "
         "delete it.";
}

}  // namespace sluice::control
