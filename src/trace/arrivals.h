// Arrivals recorded elsewhere: a request's time and its function, one after the other, read as they
// are asked for. A file of any size takes the memory of a line. Pure but for the file.
//
//   timestamp,function              seconds from the beginning, or RFC 3339 times; sorted
//   TIMESTAMP,ContextTokens,…       Azure's LLM traces: times, and the tokens of each request
//
// One thread.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "trace/fields.h"
#include "trace/text_file.h"

namespace sluice::trace {

struct Arrival {
  Nanos at{};            // since the first one
  std::string function;  // empty: the file has one
  int prompt_tokens = 0, output_tokens = 0;

  bool operator==(const Arrival&) const = default;
};

class ArrivalFile {
 public:
  static Result<ArrivalFile> open(const std::string& path);
  // Returns the next one, nothing at the end, or an error: a time before the last one, a field that
  // is none.
  Result<std::optional<Arrival>> next();

 private:
  ArrivalFile(TextFile file, Header header) : file_(std::move(file)), header_(std::move(header)) {}

  TextFile file_;
  Header header_;
  size_t time_ = 0;
  std::optional<size_t> function_, prompt_, output_;
  std::optional<Nanos> first_;
  Nanos last_{};
};

// Reads "12.5" as seconds, "2023-11-16 18:15:46.6805900", "2023-11-16T18:15:46Z" and
// "2024-05-10 00:00:00.009930+00:00" as the time since 1970, to the nanosecond.
std::optional<Nanos> moment(std::string_view text);

}  // namespace sluice::trace
