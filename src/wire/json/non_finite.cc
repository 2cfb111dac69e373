#include "wire/json/non_finite.h"

#include <algorithm>
#include <iterator>

namespace sluice::wire {

std::optional<std::string> wrap_non_finite(std::string_view json, std::string_view before,
                                           std::string_view after) {
  std::string out;
  bool in_text = false, any = false;
  for (size_t at = 0; at < json.size();) {
    const char c = json[at];
    const auto* word =
        in_text ? std::end(kNonFinite) : std::ranges::find_if(kNonFinite, [&](const NonFinite& n) {
          return json.substr(at).starts_with(n.text);
        });
    if (word != std::end(kNonFinite)) {
      any = true;
      out.append(before).append(word->text).append(after);
      at += word->text.size();
      continue;
    }
    if (c == '"') in_text = !in_text;
    const size_t taken = in_text && c == '\\' ? 2 : 1;
    out.append(json.substr(at, taken));
    at += taken;
  }
  if (!any) return std::nullopt;
  return out;
}

}  // namespace sluice::wire
