#include "trace/text_file.h"

#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace sluice::trace {
namespace {

constexpr size_t kLongestLine = size_t{1} << 20;
constexpr unsigned kBuffer = 1U << 17;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // of UTF-8, as spreadsheets write it

}  // namespace

void TextFile::Close::operator()(gzFile_s* file) const {
  gzclose(file);
}

TextFile::TextFile(std::string path, gzFile_s* file) : path_(std::move(path)), file_(file) {
  gzbuffer(file, kBuffer);
}

Result<TextFile> TextFile::open(const std::string& path) {
  std::error_code fault;
  const auto status = std::filesystem::status(path, fault);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    return Error{ErrorKind::kInvalid, path + ": is no regular file"};  // a pipe would not end
  gzFile_s* file = gzopen(path.c_str(), "rb");
  if (file == nullptr)
    return Error{ErrorKind::kNotFound,
                 path + ": " + std::generic_category().message(errno == 0 ? ENOMEM : errno)};
  return TextFile(path, file);
}

Error TextFile::error(std::string_view message) const {
  return {ErrorKind::kInvalid, path_ + ":" + std::to_string(line_) + " " + std::string(message)};
}

Result<std::optional<std::string_view>> TextFile::next() {
  text_.clear();
  ++line_;
  std::array<char, 4096> piece;
  for (z_off_t begin = gztell(file_.get());
       gzgets(file_.get(), piece.data(), piece.size()) != nullptr; begin = gztell(file_.get())) {
    if (std::strlen(piece.data()) != static_cast<size_t>(gztell(file_.get()) - begin))
      return error("the line has a NUL: this is no text");
    text_ += piece.data();
    if (text_.size() > kLongestLine) return error("the line is longer than 1 MiB");
    if (text_.back() != '\n') continue;  // a longer line, or the last one
    text_.pop_back();
    if (!text_.empty() && text_.back() == '\r') text_.pop_back();
    return std::optional(whole_line());
  }
  int fault = Z_OK;
  const char* message = gzerror(file_.get(), &fault);
  if (fault == Z_BUF_ERROR) return error("the gzip stream breaks off");
  if (fault != Z_OK && fault != Z_STREAM_END) return error(message);
  if (text_.empty()) return std::optional<std::string_view>();
  return std::optional(whole_line());
}

std::string_view TextFile::whole_line() const {
  std::string_view line = text_;
  if (line_ == 1 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  return line;
}

Result<std::optional<std::string_view>> TextFile::next_with_content() {
  while (true) {
    SLUICE_ASSIGN(line, next());
    if (!line || (line->find_first_not_of(" \t") != line->npos && line->front() != '#'))
      return line;
  }
}

Result<std::string> read_text(const std::string& path, size_t most) {
  SLUICE_ASSIGN(file, TextFile::open(path));
  std::string text;
  while (true) {
    SLUICE_ASSIGN(line, file.next());
    if (!line) return text;
    (text += *line) += '\n';
    if (text.size() > most)
      return file.error("the file has more than " + std::to_string(most) + " bytes");
  }
}

}  // namespace sluice::trace
