#include "model/function.h"

namespace sluice {

std::string to_string(const FunctionName& f) {
  return f.space + "/" + f.name;
}

FunctionName function_name(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return {.name = text};
  return {.space = text.substr(0, slash), .name = text.substr(slash + 1)};
}

std::string served_name(const FunctionName& f) {
  return f.space == "default" ? f.name : f.space + "." + f.name;
}

std::string revision_id(const FunctionName& f, int number) {
  return to_string(f) + "@" + std::to_string(number);
}

}  // namespace sluice
