// The fields of a function's specification, each said once: its name in a file and in messages, its
// type, bounds, default and meaning. By these tables files are read and written, revisions stored
// and compared; docs/function-file.md, `sluice explain` and the schemas have them. What is no
// single value (a model, a policy, a slice) is read by code of its own; `other_fields` says what it
// means. Plain data; any thread.
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
  bool stored_if_set = false;   // earlier versions did not have it: a default is left out
  bool default_varies = false;  // the default is another where the model's files state one
  std::string_view allowed;     // of a text: what it may be, for people; empty: `words`, or any
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

// A field beside the table, as a user is told of it.
struct OtherField {
  std::string_view name, meaning, allowed, unset;
};
std::span<const OtherField> other_fields();           // of an inference function
std::span<const OtherField> other_training_fields();  // of a training function

// Returns a meaning without Markdown: links by their words, and without those in parentheses.
std::string plain_meaning(std::string_view meaning);

}  // namespace sluice
