#include "runtime/torch_errors.h"

#include <c10/util/Exception.h>
#include <sys/resource.h>

#include <new>
#include <string_view>

namespace sluice::runtime {
namespace {

constexpr char kHalf[] =
    "it computes in half precision (FP16 or BF16), for which libtorch has no such operator on a "
    "CPU: save it in single precision, as model.float()";
constexpr char kCuda[] =
    "its code names a CUDA device, which this build of libtorch does not use: move it to the CPU "
    "(model.cpu()), trace or script it there, and save it again";

// What torch's text contains, and what it means. All fail with every input.
struct Known {
  std::string_view part, sentence;
};
constexpr Known kKnown[] = {
    {"not implemented for 'Half'", kHalf},
    {"not implemented for 'BFloat16'", kHalf},
    {"(c10::Half)", kHalf},
    {"but found Half", kHalf},
    {"expected scalar type Half", kHalf},
    {"must have the same dtype",
     "an input and a weight differ in type: state the input's datatype as the model has it; in "
     "half "
     "precision (FP16) it cannot run on a CPU, so save it as model.float()"},
    {"not linked with support for cuda", kCuda},
    {"not compiled with CUDA", kCuda},
    {"Cannot initialize CUDA", kCuda},
    {"'CUDA' backend", kCuda},
    {"No CUDA GPUs", kCuda},
    {"maximum supported version for reading",
     "a newer PyTorch than this build's libtorch wrote it: save it again with PyTorch 1.13, or an "
     "earlier one"},
    {"Unknown builtin op",
     "it has an operator that this build's libtorch lacks, one of a newer PyTorch or of an "
     "extension such as torchvision"},
    {"PytorchStreamReader failed",
     "no TorchScript model, or cut short: torch.jit.save(torch.jit.script(model), FILE) makes one"},
};
constexpr std::string_view kNoMemory[] = {"can't allocate memory", "not enough memory",
                                          "bad_alloc"};

std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

// Returns the line with the cause: the last one of the interpreter's text, which quotes the model's
// lines before it; the first one of all others.
std::string_view cause_of(std::string_view text) {
  if (text.find("Traceback of TorchScript") == text.npos) return first_line(text);
  const size_t end = text.find_last_not_of(" \r\n");
  text = text.substr(0, end == text.npos ? 0 : end + 1);
  return text.substr(text.rfind('\n') + 1);
}

// Returns a sentence if an allocation failed.
std::string memory_sentence(std::string_view text) {
  bool failed = false;
  for (const std::string_view part : kNoMemory) failed = failed || text.find(part) != text.npos;
  if (!failed) return "";
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return "it takes more memory than " + std::to_string(limit.rlim_cur >> 20) +
         " MiB, the limit for reading it and running it once";
}

std::string sentence_for(std::string_view text, bool& always) {
  if (std::string memory = memory_sentence(text); !memory.empty()) return memory;
  for (const Known& k : kKnown)
    if (text.find(k.part) != text.npos) {
      always = true;
      return std::string(k.sentence);
    }
  return "";
}

}  // namespace

TorchError explained(const std::exception& e, ErrorKind otherwise) {
  const bool callers_fault = dynamic_cast<const c10::IndexError*>(&e) != nullptr ||
                             dynamic_cast<const c10::ValueError*>(&e) != nullptr;
  const auto* torch = dynamic_cast<const c10::Error*>(&e);
  const std::string text = torch ? torch->what_without_backtrace() : e.what();
  TorchError out;
  std::string sentence = sentence_for(text, out.always);
  out.known = !sentence.empty();
  const std::string_view cause = cause_of(text);
  if (out.known || text.size() > cause.size() + 1) out.whole = text;
  out.error = {callers_fault ? ErrorKind::kInvalid : otherwise,
               out.known ? std::move(sentence) : std::string(cause)};
  return out;
}

}  // namespace sluice::runtime
