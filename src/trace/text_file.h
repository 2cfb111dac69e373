// TextFile: the lines of a file, gzipped or not, one at a time, so that a file of any size takes
// the memory of its longest line. Errors name the file and the line.
//
// One thread. Owns the open file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

struct gzFile_s;

namespace sluice::trace {

class TextFile {
 public:
  static Result<TextFile> open(const std::string& path);

  // Returns the next line without its end ("\n" or "\r\n"), valid until the next call; nothing at
  // the end of the file. A line of over a mebibyte, or with a NUL, is an error, and so is a gzip
  // stream that breaks off.
  Result<std::optional<std::string_view>> next();
  // The same, without empty lines and those that begin with '#'.
  Result<std::optional<std::string_view>> next_with_content();

  // The line that next() returned last; the first is 1.
  int64_t line() const { return line_; }
  // "FILE:LINE MESSAGE".
  Error error(std::string_view message) const;

 private:
  struct Close {
    void operator()(gzFile_s* file) const;
  };
  TextFile(std::string path, gzFile_s* file);
  // The line that was read, without a byte order mark before the first.
  std::string_view whole_line() const;

  std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
  std::string text_;
  int64_t line_ = 0;
};

// Returns the whole text, or an error if it has more than `most` bytes.
Result<std::string> read_text(const std::string& path, size_t most = size_t{64} << 20);

}  // namespace sluice::trace
