// The fields that no table reads: models, variants, KServe's form, policies and slices.
#include "model/function_fields.h"

namespace sluice {
namespace {

constexpr OtherField kOfInference[] = {
    {"model.path",
     "TorchScript file; `NAME.json` beside it has its inputs and outputs "
     "([below](#the-models-sidecar)). Or a folder in Triton's layout "
     "([folders](#a-models-folder))",
     "a path", "must stand, unless one of `storageUri`, `server`, `variants` does"},
    {"model.storageUri",
     "in place of `path`: `file:///…`, or `https://…` and `http://…`, which the platform fetches "
     "([models by URI](#models-by-uri))",
     "a URI", "none"},
    {"model.sha256", "checksum of the file at an `https` or `http` URI", "64 hexadecimal digits",
     "must stand with such a URI"},
    {"model.modelFormat.name", "what the file is", "torchscript", "torchscript"},
    {"model.inputs", "the model's inputs, in place of `NAME.json`",
     "a list of `{name, datatype, shape}`", "those of `NAME.json`"},
    {"model.outputs", "the same of its outputs; the two stand together",
     "a list of `{name, datatype, shape}`", "those of `NAME.json`"},
    {"model.inputs[].sizes", "an input's shape in a usual request ([below](#a-usual-request))",
     "a list of numbers", "ones"},
    {"model.inputs[].sample", "its values there", "a number, or a list of numbers", "zeros"},
    {"variants",
     "in place of `model`, or beside it: a file for each type of devices ([variants](#variants))",
     "a list of `{deviceType, quantization, batch, path}`, 32 at most", "none"},
    {"predictor", "in place of `server`: KServe's form of it ([below](#kserves-form))",
     "`{containers: […]}`, of one", "none"},
    {"policy",
     "a [bundle](policies.md), by name, or with settings of its own: "
     "`{name: has-gpu, settings: {alpha: 0.8}}`",
     "`sluice policies`", "the platform's"},
    {"slice.sm", "share of a device's cores that `fixed` and `hpa` hold, and where others start",
     "a share", "100%"},
    {"slice.quota.request", "share of time that is guaranteed", "a share", "100%"},
    {"slice.quota.limit", "share of time that may be used, not below the request", "a share",
     "the request"},
    {"slice.memory", "memory that it holds", "an amount of memory", "memory"},
    {"gpuCores", "`slice.sm` by another name, of a GPU", "a share", "none"},
    {"gpuCount", "the GPUs of an instance, of which it has one", "1", "1"},
};

constexpr OtherField kOfTraining[] = {
    {"model.path",
     "a TorchScript module with `forward` and a method `loss` (`@torch.jit.export`), which takes "
     "one argument for each array of the data set and returns the mean loss",
     "a path", "must stand, or `command`"},
};

// Returns the length of a link "[words](target)" that a text begins with, and its words; 0: none.
size_t link_at(std::string_view text, std::string_view& words) {
  const size_t middle = text.find("](");
  if (!text.starts_with('[') || middle == text.npos) return 0;
  const size_t end = text.find(')', middle);
  if (end == text.npos) return 0;
  words = text.substr(1, middle - 1);
  return end + 1;
}

}  // namespace

std::span<const OtherField> other_fields() {
  return kOfInference;
}
std::span<const OtherField> other_training_fields() {
  return kOfTraining;
}

std::string plain_meaning(std::string_view meaning) {
  std::string out;
  std::string_view words;
  while (!meaning.empty()) {
    size_t length = 1;
    if (const size_t aside = meaning.starts_with(" (") ? link_at(meaning.substr(2), words) : 0;
        aside > 0 && meaning.substr(2 + aside).starts_with(')')) {
      length = aside + 3;
    } else if (const size_t link = link_at(meaning, words); link > 0) {
      out += words;
      length = link;
    } else if (meaning[0] != '`') {
      out += meaning[0];
    }
    meaning.remove_prefix(length);
  }
  return out;
}

}  // namespace sluice
