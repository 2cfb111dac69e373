#include "cli/predict_weights.h"

#include "learn/builtin.h"
#include "trace/text_file.h"
#include "wire/json/json.h"

namespace sluice::cli {

Result<learn::Learned> weights_for(const std::string& file, const std::string& device) {
  if (file.empty()) {
    if (const learn::Learned* found = learn::builtin_weights(device)) return *found;
    return Error{ErrorKind::kNotFound, "--device: there are no weights of '" + device +
                                           "'; `sluice predict train` makes some, --weights reads "
                                           "them"};
  }
  SLUICE_ASSIGN(text, trace::read_text(file));
  const auto parsed = wire::parse_json(text);
  if (!parsed.ok()) return within(file, parsed.error());
  auto learned = learn::learned_from(*parsed);
  if (!learned.ok()) return within(file, learned.error());
  return learned;
}

}  // namespace sluice::cli
