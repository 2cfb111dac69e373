// A birth as JSON, among the fields of the new instance: "model" and "batching", or "program". Free
// functions; any thread.
#pragma once

#include "model/birth.h"
#include "wire/json/json.h"

namespace sluice::wire {

// Returns the fields to add to an object.
nlohmann::json to_json(const Birth&);
// Reads them. An object without "program" is a fork of a template.
Birth birth_from(Fields& fields);

// Returns whether a GET may ask it: "/…" in ASCII without spaces.
bool is_request_path(const std::string& path);

nlohmann::json to_json(const ExecOfProgram&);
Result<ExecOfProgram> program_from(const nlohmann::json&);

}  // namespace sluice::wire
