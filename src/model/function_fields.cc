#include "model/function_fields.h"

#include <charconv>

#include "model/drain_signal.h"
#include "model/quantity.h"

namespace sluice {
namespace {

using Slot = FunctionField::Slot;

constexpr double kMany = 1'000'000, kMostReplicas = 10'000, kMostAtOnce = 1000;
constexpr double kHour = 3600, kDay = 24 * kHour;

constexpr std::string_view kDeviceWords[] = {"cpu", "cuda", "any"};
constexpr std::string_view kMpsWords[] = {"on", "off"};

constexpr FunctionField kInference[] = {
    {.name = "server.image",
     .stored = "server_image",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().model.program.image; },
     .unset = "the platform's",
     .meaning = "the container image that has the program, on a cluster "
                "([images](kubernetes.md#images-of-your-own))",
     .stored_if_set = true},
    {.name = "server.command",
     .stored = "server_command",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().model.program.command; },
     .unset = "none",
     .meaning = "in place of `model`: the words of a program that serves; `./` and `~/` begin "
                "paths, `$(PORT)` is its port"},
    {.name = "server.args",
     .stored = "server_args",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().model.program.args; },
     .unset = "none",
     .meaning = "more words"},
    {.name = "server.files",
     .stored = "server_files",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().model.program.files; },
     .unset = "none",
     .meaning = "files and folders, whose copies are its working folder; a folder that ends in `/` "
                "stands for what it contains"},
    {.name = "server.imports",
     .stored = "server_imports",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().model.program.imports; },
     .unset = "none",
     .meaning = "modules of Python that a template imports once, and instances have from their "
                "first line on ([starting faster](#starting-faster))"},
    {.name = "server.volumes",
     .stored = "server_volumes",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().model.program.volumes; },
     .unset = "none",
     .meaning = "folders that its working folder has links to, by their last name; what is in them "
                "is not copied ([volumes](#volumes))"},
    {.name = "server.env",
     .stored = "server_env",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().model.program.env; },
     .unset = "none",
     .meaning = "its variables, `{NAME: text}` or `{NAME: {file: SECRET}}` ([secrets](#secrets)), "
                "beside `PATH` and those that the platform sets"},
    {.name = "server.port",
     .stored = "server_port",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().model.program.port; },
     .least = 1024,
     .most = 65535,
     .unset = "a free one",
     .meaning = "where it listens on 127.0.0.1, with one instance on a machine"},
    {.name = "server.portEnv",
     .stored = "server_port_env",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().model.program.port_env; },
     .meaning = "the variable that names the port"},
    {.name = "server.protocol",
     .stored = "server_http",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().model.program.http; },
     .meaning = "`oip`: it answers `/v2/models/NAME/infer`, as model functions do; `http`: any "
                "method and path, which callers ask below `/functions/NAME/`",
     .no = "oip",
     .yes = "http"},
    {.name = "server.readiness",
     .stored = "server_readiness",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().model.program.readiness; },
     .unset = "a connection",
     .meaning = "a path that is answered 2xx once it is ready; without one, it is ready once its "
                "port accepts a connection"},
    {.name = "server.startTimeout",
     .stored = "server_start_timeout_ms",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().model.program.start_timeout; },
     .least = 1,
     .most = kHour,
     .stored_in = Millis(1),
     .meaning = "time until it is ready; then its start has failed, and it is ended"},
    {.name = "server.drainSignal",
     .stored = "server_drain_signal",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().model.program.drain_signal; },
     .meaning = "what asks it to finish and leave",
     .words = kDrainSignals},
    {.name = "server.metrics",
     .stored = "server_metrics",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().model.program.metrics; },
     .unset = "none",
     .meaning = "the path of its own metrics, which the platform and a Prometheus read "
                "([metrics](operations.md#metrics))"},
    {.name = "slo.latency",
     .stored = "slo_us",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().slo.latency; },
     .least = 1e-4,
     .most = kHour,
     .stored_in = Micros(1),
     .unset = "none",
     .meaning = "the objective, from intended send to last byte",
     .wanted = "a duration such as 80ms"},
    {.name = "slo.percentile",
     .stored = "slo_percentile",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().slo.percentile; },
     .least = 1,
     .most = 100,
     .meaning = "of the requests, which the objective holds for"},
    {.name = "slo.rate",
     .stored = "slo_rate",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().slo.rate; },
     .most = kMany,
     .unset = "none",
     .meaning = "inferences a second that there is always room for; `fixed`, `exclusive`, `hpa` "
                "and `kpa` do not scale by rate",
     .stored_if_set = true},
    {.name = "quantization",
     .stored = "quantization",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().quantization; },
     .unset = "any",
     .meaning = "of the listed `variants`, only those of this one",
     .stored_if_set = true},
    {.name = "batch",
     .stored = "variant_batch",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().batch; },
     .least = 1,
     .most = 256,
     .unset = "any",
     .meaning = "of the listed `variants`, only those that take so many at a time",
     .stored_if_set = true},
    {.name = "minReplicas",
     .stored = "min_replicas",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().min_replicas; },
     .most = kMostReplicas,
     .meaning = "least number of instances; `exclusive`, `kpa`, `fast-gshare`, `smif` and "
                "`infless` go below one"},
    {.name = "maxReplicas",
     .stored = "max_replicas",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().max_replicas; },
     .most = kMostReplicas,
     .unset = "no bound",
     .meaning = "largest number of instances"},
    {.name = "initialScale",
     .stored = "initial_scale",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().initial_scale; },
     .most = kMostReplicas,
     .unset = "minReplicas",
     .meaning = "least number of instances in the first two minutes of a revision",
     .stored_if_set = true},
    {.name = "containerConcurrency",
     .stored = "container_concurrency",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().container_concurrency; },
     .most = kMostAtOnce,
     .unset = "its batch",
     .meaning = "requests that an instance has at once"},
    {.name = "scaleTarget",
     .stored = "scale_target",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().scale_target; },
     .most = kMostAtOnce,
     .unset = "the policy's",
     .meaning = "concurrency that `exclusive`, `hpa` and `kpa` scale by (else 70 % of "
                "`containerConcurrency`, `hpa` 80 %); the other bundles scale by rate"},
    {.name = "scaleToZeroAfter",
     .stored = "scale_to_zero_after_ms",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().scale_to_zero_after; },
     .least = 1,
     .most = kDay,
     .stored_in = Millis(1),
     .meaning = "time without a request until the last instance stops, if `minReplicas` is 0 and "
                "the bundle reaches zero"},
    {.name = "maxQueue",
     .stored = "max_queue",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().max_queue; },
     .most = kMany,
     .meaning = "waiting requests; above it, 429 with `Retry-After`"},
    {.name = "admission",
     .stored = "admit_all",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().admit_all; },
     .meaning = "`in-time`: a request that would miss `slo.latency` (else `timeout`) gets 429 at "
                "once; `all`: it waits",
     .no = "in-time",
     .yes = "all"},
    {.name = "timeout",
     .stored = "timeout_ms",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().timeout; },
     .least = 1e-3,
     .most = kDay,
     .stored_in = Millis(1),
     .meaning = "a request's whole life, not below `slo.latency`; then 504. An instance silent for "
                "another 5 s is replaced"},
    {.name = "batcher.maxBatchSize",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().batching.max_size; },
     .least = 1,
     .most = 256,
     .meaning = "largest batch",
     .default_varies = true},
    {.name = "batcher.maxLatency",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().batching.max_delay; },
     .most = 10,
     .meaning = "the longest a request waits for others"},
    {.name = "canaryTrafficPercent",
     .stored = "canary_traffic_percent",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().canary_traffic_percent; },
     .most = 100,
     .meaning = "part of the traffic for this revision; the revision before has the rest"},
    {.name = "token",
     .stored = "token",
     .slot = [](FunctionSpec& s) -> Slot { return &s.inference().token; },
     .unset = "none",
     .meaning = "callers must send it (`Authorization: Bearer …`); none: the platform's "
                "(`--gateway-token-file`), or none",
     .secret = true},
    {.name = "gpuMemory",
     .stored = "gpu_memory",
     .slot = [](FunctionSpec& s) -> Slot { return &s.gpu_memory; },
     .unset = "memory",
     .meaning = "of a GPU's memory, in place of `memory`",
     .stored_if_set = true},
    {.name = "mps",
     .stored = "mps",
     .slot = [](FunctionSpec& s) -> Slot { return &s.mps; },
     .unset = "either",
     .meaning = "`on`: only on GPUs whose SMs MPS can divide; `off`: each instance has all SMs of "
                "its GPU, in its time",
     .words = kMpsWords,
     .stored_if_set = true},
};

constexpr FunctionField kTraining[] = {
    {.name = "command",
     .stored = "command",
     .slot = [](FunctionSpec& s) -> Slot { return &s.training().command; },
     .unset = "the trainer's",
     .meaning = "in place of `model`: the words of a script that trains ([scripts](#scripts)); "
                "`./` and `~/` begin paths"},
    {.name = "elastic",
     .stored = "elastic",
     .slot = [](FunctionSpec& s) -> Slot { return &s.training().elastic; },
     .meaning = "the command joins by itself; else it is run anew with each change of its workers"},
    {.name = "dataset",
     .stored = "dataset",
     .slot = [](FunctionSpec& s) -> Slot { return &s.training().dataset; },
     .unset = "none",
     .meaning = "needed with `model`: a folder of arrays `NAME.npy`, whose first dimension counts "
                "the samples; in the "
                "order of their names, or of `index.json`: `{\"arrays\": […]}`"},
    {.name = "length",
     .stored = "epochs",
     .slot = [](FunctionSpec& s) -> Slot { return &s.training().epochs; },
     .least = 1,
     .most = kMany,
     .meaning = "epochs",
     .wanted = "the number of epochs"},
    {.name = "leastDevices",
     .stored = "min_workers",
     .slot = [](FunctionSpec& s) -> Slot { return &s.training().min_workers; },
     .least = 1,
     .most = kMostReplicas,
     .meaning = "fewer make no progress"},
    {.name = "mostDevices",
     .stored = "max_workers",
     .slot = [](FunctionSpec& s) -> Slot { return &s.training().max_workers; },
     .most = kMostReplicas,
     .unset = "all",
     .meaning = "more are never used"},
    {.name = "batchSize.least",
     .stored = "min_batch",
     .slot = [](FunctionSpec& s) -> Slot { return &s.training().batch.least; },
     .least = 1,
     .most = kMany,
     .unset = "the platform's",
     .meaning = "samples of a step, over all workers; the platform's: 64"},
    {.name = "batchSize.most",
     .stored = "max_batch",
     .slot = [](FunctionSpec& s) -> Slot { return &s.training().batch.most; },
     .least = 1,
     .most = kMany,
     .unset = "the platform's",
     .meaning = "the same; the platform's: four times the least"},
    {.name = "batchSize.mostPerWorker",
     .stored = "max_local_batch",
     .slot = [](FunctionSpec& s) -> Slot { return &s.training().batch.most_local; },
     .least = 1,
     .most = kMany,
     .unset = "no bound",
     .meaning = "samples of a step, of one worker"},
    {.name = "learningRate",
     .stored = "learning_rate",
     .slot = [](FunctionSpec& s) -> Slot { return &s.training().learning_rate; },
     .most = 1000,
     .unset = "the platform's",
     .meaning = "at the least batch; the platform's: 0.02"},
    {.name = "paused",
     .stored = "paused",
     .slot = [](FunctionSpec& s) -> Slot { return &s.training().paused; },
     .meaning = "its workers leave, with a checkpoint; `sluice pause` and `sluice resume` set it"},
    {.name = "keepCheckpoints",
     .stored = "keep_checkpoints",
     .slot = [](FunctionSpec& s) -> Slot { return &s.training().keep_checkpoints; },
     .least = 1,
     .most = 30,
     .meaning = "the newest ones: `sluice resume --from` goes back to one of them",
     .stored_if_set = true},
    {.name = "plan",
     .stored = "plan",
     .slot = [](FunctionSpec& s) -> Slot { return &s.training().plan; },
     .unset = "the platform's, else the policy's",
     .meaning = "the [plan](policies.md#training-jobs) that gives it devices, by name",
     .stored_if_set = true,
     .allowed = "`sluice policies --plans`"},
};

constexpr FunctionField kShared[] = {
    {.name = "priority",
     .stored = "priority",
     .slot = [](FunctionSpec& s) -> Slot { return &s.priority; },
     .least = -1000,
     .most = 1000,
     .meaning = "larger wins when devices are full"},
    {.name = "memory",
     .stored = "memory",
     .slot = [](FunctionSpec& s) -> Slot { return &s.memory; },
     .unset = "measured",
     .meaning =
         "of one instance; above it plus 64 MiB the kernel kills the instance "
         "([threat model](threat-model.md#instances)). On a GPU: of the device's, and above it "
         "an allocation fails"},
    {.name = "device",
     .stored = "device",
     .slot = [](FunctionSpec& s) -> Slot { return &s.device; },
     .unset = "cpu",
     .meaning =
         "where its instances run: `cpu`, `cuda` (GPUs) or `any`; models and training jobs run "
         "on `cpu`",
     .words = kDeviceWords},
    {.name = "deviceTypes",
     .stored = "device_types",
     .slot = [](FunctionSpec& s) -> Slot { return &s.device_types; },
     .unset = "all",
     .meaning = "the types of devices that its instances may be placed on (`sluice get devices` "
                "shows them); `smif` prefers the first ones, whatever they cost"},
};

std::string one_of(std::span<const std::string_view> words) {
  std::string all(words.front());
  for (const std::string_view word : words.subspan(1))
    all.append(word == words.back() ? " or " : ", ").append(word);
  return all;
}

std::string text_of(double x) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, x, std::chars_format::fixed).ptr};
}

// What a value is for people, without regard to its field.
std::string plain_text(int n) {
  return std::to_string(n);
}
std::string plain_text(double x) {
  return text_of(x);
}
std::string plain_text(Nanos d) {
  return format_duration(d);
}
std::string plain_text(Bytes b) {
  return format_bytes(b);
}
std::string plain_text(const std::string& text) {
  return text;
}
std::string plain_text(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}
std::string plain_text(const std::map<std::string, EnvValue>& variables) {
  std::string all;
  for (const auto& [name, value] : variables)
    all += (all.empty() ? "" : ", ") + name + ": " +
           (value.secret.empty() ? value.text : "{file: " + value.secret + "}");
  return all;
}

}  // namespace

std::span<const FunctionField> inference_fields() {
  return kInference;
}
std::span<const FunctionField> training_fields() {
  return kTraining;
}
std::span<const FunctionField> shared_fields() {
  return kShared;
}

std::vector<const FunctionField*> fields_of(const FunctionSpec& spec) {
  std::vector<const FunctionField*> fields;
  for (const auto table :
       {spec.is_inference() ? inference_fields() : training_fields(), shared_fields()})
    for (const FunctionField& field : table) fields.push_back(&field);
  return fields;
}

std::string_view section_of(const FunctionField& field) {
  const size_t dot = field.name.find('.');
  return dot == field.name.npos ? "" : field.name.substr(0, dot);
}

std::string_view key_of(const FunctionField& field) {
  return field.name.substr(field.name.find('.') + 1);  // npos + 1 is 0
}

FunctionField::Slot slot_of(const FunctionField& field, const FunctionSpec& spec) {
  return field.slot(const_cast<FunctionSpec&>(spec));
}

bool is_default(const FunctionField& field, const FunctionSpec& spec) {
  FunctionSpec blank;
  if (!spec.is_inference()) blank.kind = TrainingSpec{};
  const Slot other = field.slot(blank);
  return std::visit(
      [&](const auto* value) {
        return *value ==
               *std::get<std::remove_const_t<std::remove_pointer_t<decltype(value)>>*>(other);
      },
      slot_of(field, spec));
}

std::string value_text(const FunctionField& field, const FunctionSpec& spec) {
  if (!field.unset.empty() && is_default(field, spec)) return std::string(field.unset);
  if (field.secret) return "set";
  const Slot slot = slot_of(field, spec);
  if (const auto* value = std::get_if<bool*>(&slot))
    return std::string(**value ? field.yes : field.no);
  return std::visit(
      [](const auto* value) -> std::string {
        if constexpr (std::is_same_v<decltype(value), const bool*>)
          return "";
        else
          return plain_text(*value);
      },
      slot);
}

std::string allowed_text(const FunctionField& field, const FunctionSpec& spec) {
  if (!field.allowed.empty()) return std::string(field.allowed);
  const Slot slot = slot_of(field, spec);
  if (std::holds_alternative<int*>(slot) || std::holds_alternative<double*>(slot))
    return text_of(field.least) + " to " + text_of(field.most);
  if (std::holds_alternative<Nanos*>(slot))
    return format_duration(from_seconds(field.least)) + " to " +
           format_duration(from_seconds(field.most));
  if (std::holds_alternative<bool*>(slot))
    return std::string(field.no) + " or " + std::string(field.yes);
  if (std::holds_alternative<Bytes*>(slot)) return "an amount of memory";
  if (std::holds_alternative<std::string*>(slot))
    return field.words.empty() ? "a text" : one_of(field.words);
  if (std::holds_alternative<std::vector<std::string>*>(slot)) return "a list of words";
  return "a mapping of names to texts or `{file: SECRET}`";
}

}  // namespace sluice
