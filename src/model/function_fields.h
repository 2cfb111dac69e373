// The fields of a function's specification, each said once: its name in a file and in messages, its
// type, bounds, default and meaning. By these tables files are read and written, revisions stored
// and compared; docs/function-file.md has them. What is no single value (a model, a policy, a
// slice) has code of its own beside them. Plain data; any thread.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/function.h"

namespace sluice {

struct FunctionField {
  // One field of one specification.
  using Slot = std::variant<int*, double*, bool*, Nanos*, Bytes*, std::string*,
                            std::vector<std::string>*, std::map<std::string, EnvValue>*>;

  std::string_view name;    // in a file, below `spec`: "slo.latency"
  std::string_view stored;  // in messages and the store: "slo_us"; empty: part of another's value
  Slot (*slot)(FunctionSpec&);
  double least = 0, most = 0;  // inclusive, of a number; of a duration in seconds
  Nanos stored_in{0};          // the unit of a stored duration
  std::string_view unset;      // what the default means, if that is 0 or nothing
  std::string_view meaning;
  std::string_view wanted;  // it must stand: what is wanted; empty: it may be left out
  std::string_view no = "false", yes = "true";  // of a truth value
  bool secret = false;                          // its value is not shown
  std::span<const std::string_view> words;      // of a text: what it may be; empty: anything
  bool stored_if_set = false;  // earlier versions did not have it: a default is left out
};

std::span<const FunctionField> inference_fields();
std::span<const FunctionField> training_fields();
std::span<const FunctionField> shared_fields();  // of both kinds
// Those of the specification's kind, then the shared ones.
std::vector<const FunctionField*> fields_of(const FunctionSpec& spec);

// "slo" of "slo.latency"; "" of "priority".
std::string_view section_of(const FunctionField& field);
// "latency" of "slo.latency".
std::string_view key_of(const FunctionField& field);

// Returns the field's slot in a specification that is only read.
FunctionField::Slot slot_of(const FunctionField& field, const FunctionSpec& spec);
bool is_default(const FunctionField& field, const FunctionSpec& spec);
// Returns the value for people: "80ms", "the platform's", "set" of a secret.
std::string value_text(const FunctionField& field, const FunctionSpec& spec);
// Returns what a file may say: "1 to 256", "100us to 1h", "in-time or all", "an amount of memory".
std::string allowed_text(const FunctionField& field, const FunctionSpec& spec);

}  // namespace sluice
