#include "train/messages.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/printable.h"
#include "wire/json/json.h"

namespace sluice::train {
namespace {

using nlohmann::json;
using wire::Fields;

constexpr int64_t kMostInteger = std::numeric_limits<int64_t>::max();
constexpr size_t kLongestPath = 4096;
constexpr double kMostDouble = std::numeric_limits<double>::max();

// Each message's name and fields stand once: `Writer` and `Reader` visit them.
class Writer {
 public:
  explicit Writer(json& out) : out_(out) {}
  template <class T>
  void operator()(const char* key, T& value) {
    out_[key] = value;
  }
  void text(const char* key, std::string& value, size_t = 0) { out_[key] = value; }
  void buckets(const char* key, std::vector<double>& values) { out_[key] = values; }
  void check(const Profiled&) {}

 private:
  json& out_;
};

class Reader {
 public:
  explicit Reader(Fields& f) : f_(f) {}
  void operator()(const char* key, std::string& value) { value = f_.text(key, value); }
  // For people: what a user's program may have written.
  void text(const char* key, std::string& value, size_t most = kMostOfAProgramsText) {
    value = printable(f_.text(key, value), most);
  }
  void operator()(const char* key, bool& value) { value = f_.boolean(key, value); }
  void operator()(const char* key, int& value) {
    value = static_cast<int>(f_.integer(key, value, 0, std::numeric_limits<int>::max()));
  }
  void operator()(const char* key, int64_t& value) {
    value = f_.integer(key, value, -1, kMostInteger);
  }
  void operator()(const char* key, uint64_t& value) {
    value = static_cast<uint64_t>(f_.integer(key, static_cast<int64_t>(value), 0, kMostInteger));
  }
  void operator()(const char* key, double& value) {
    value = f_.number(key, value, -kMostDouble, kMostDouble);
  }
  // Of buckets: finite numbers from 0 on. A job's program may write anything.
  void buckets(const char* key, std::vector<double>& values) {
    const json* list = f_.child(key);
    if (list == nullptr || !list->is_array() || list->size() > kMostProfiledBuckets)
      return f_.fail(key, "is no list of at most " + std::to_string(kMostProfiledBuckets));
    for (const json& item : *list) {
      const double value = item.is_number() ? item.get<double>() : -1;
      if (!(value >= 0 && value <= kMostDouble)) return f_.fail(key, "has no number from 0 on");
      values.push_back(value);
    }
  }
  // Refuses what no step can have been.
  void check(const Profiled& m) {
    if (m.bytes.empty() || m.ready_seconds.size() != m.bytes.size() ||
        m.sum_seconds.size() != m.bytes.size())
      return f_.fail("ready_seconds", "has not one number for each bucket");
    if (!std::ranges::is_sorted(m.ready_seconds)) return f_.fail("ready_seconds", "descends");
    if (!(m.compute_seconds > 0 && m.compute_seconds >= m.ready_seconds.back()))
      return f_.fail("compute_seconds", "is not the end of computation");
    if (!(m.optimizer_seconds >= 0)) f_.fail("optimizer_seconds", "is below 0");
  }

 private:
  Fields& f_;
};

template <class M>
struct NameOf;
#define SLUICE_MESSAGE(Type, text)             \
  template <>                                  \
  struct NameOf<Type> {                        \
    static constexpr const char* kName = text; \
  }
SLUICE_MESSAGE(Hello, "hello");
SLUICE_MESSAGE(Loaded, "loaded");
SLUICE_MESSAGE(Stopped, "stopped");
SLUICE_MESSAGE(Progress, "progress");
SLUICE_MESSAGE(Profiled, "profiled");
SLUICE_MESSAGE(Saved, "saved");
SLUICE_MESSAGE(Leaving, "leaving");
SLUICE_MESSAGE(Finished, "finished");
SLUICE_MESSAGE(Failed, "failed");
SLUICE_MESSAGE(StoreSet, "set");
SLUICE_MESSAGE(StoreGet, "get");
SLUICE_MESSAGE(Pong, "pong");
SLUICE_MESSAGE(Welcome, "welcome");
SLUICE_MESSAGE(Form, "form");
SLUICE_MESSAGE(Halt, "halt");
SLUICE_MESSAGE(Adapt, "adapt");
SLUICE_MESSAGE(Leave, "leave");
SLUICE_MESSAGE(StoreValue, "value");
SLUICE_MESSAGE(Ping, "ping");
SLUICE_MESSAGE(Refused, "refused");
#undef SLUICE_MESSAGE

template <class V>
void fields(V&& v, Hello& m) {
  v.text("job", m.job), v("key", m.key), v.text("worker", m.worker), v("version", m.version);
  v("generation", m.generation), v("step", m.step);
}
template <class V>
void fields(V&& v, Loaded& m) {
  v("samples", m.samples), v("parameter_bytes", m.parameter_bytes);
}
template <class V>
void fields(V&& v, Stopped& m) {
  v("generation", m.generation), v("step", m.step), v.text("why", m.why);
}
template <class V>
void fields(V&& v, Progress& m) {
  v("generation", m.generation), v("step", m.at.step), v("epoch", m.at.epoch);
  v("sample", m.at.sample), v("loss", m.loss), v("batch", m.batch), v("noise", m.noise);
  v("step_seconds", m.step_seconds), v("wait_seconds", m.wait_seconds);
  v("samples_per_second", m.samples_per_second), v("learning_rate", m.learning_rate);
  v.text("trouble", m.trouble);
}
template <class V>
void fields(V&& v, Profiled& m) {
  v("generation", m.generation), v("batch", m.batch), v("steps", m.steps);
  v.buckets("bytes", m.bytes), v.buckets("ready_seconds", m.ready_seconds);
  v.buckets("sum_seconds", m.sum_seconds), v("compute_seconds", m.compute_seconds);
  v("optimizer_seconds", m.optimizer_seconds);
  v.check(m);
}
template <class V>
void fields(V&& v, Saved& m) {
  v("step", m.at.step), v("epoch", m.at.epoch), v("sample", m.at.sample);
  v.text("path", m.path, kLongestPath), v("bytes", m.bytes), v("seconds", m.seconds);
}
template <class V>
void fields(V&&, Leaving&) {}
template <class V>
void fields(V&& v, Finished& m) {
  v("step", m.step), v.text("model", m.model, kLongestPath);
}
template <class V>
void fields(V&& v, Failed& m) {
  v.text("error", m.error), v("for_good", m.for_good);
}
template <class V>
void fields(V&& v, StoreSet& m) {
  v("key", m.key), v("value", m.value);
}
template <class V>
void fields(V&& v, StoreGet& m) {
  v("key", m.key);
}
template <class V>
void fields(V&& v, Welcome& m) {
  v("term", m.term), v("model", m.model), v("dataset", m.dataset), v("artifacts", m.artifacts);
  v("epochs", m.epochs), v("seed", m.seed), v("batch", m.batch);
  v("learning_rate", m.learning_rate), v("momentum", m.momentum);
  v("least_part", m.least_part);
}
template <class V>
void fields(V&& v, Form& m) {
  v("generation", m.generation), v("rank", m.rank), v("world", m.world), v("batch", m.batch);
  v("sync", m.sync), v("resume", m.resume);
}
template <class V>
void fields(V&& v, Halt& m) {
  v("generation", m.generation);
}
template <class V>
void fields(V&& v, Adapt& m) {
  v("batch", m.batch);
}
template <class V>
void fields(V&& v, Leave& m) {
  v("save", m.save);
}
template <class V>
void fields(V&& v, StoreValue& m) {
  v("key", m.key), v("value", m.value);
}
template <class V>
void fields(V&&, Pong&) {}
template <class V>
void fields(V&&, Ping&) {}
template <class V>
void fields(V&& v, Refused& m) {
  v.text("error", m.error);
}

template <class Message>
std::string line_of(const Message& message) {
  return std::visit(
      [](auto copy) {
        json out = {{"kind", NameOf<decltype(copy)>::kName}};
        fields(Writer(out), copy);
        return out.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
      },
      message);
}

// Tries the variant's alternatives from I on.
template <class Message, size_t I = 0>
Result<Message> read(const std::string& kind, Fields& f) {
  if constexpr (I == std::variant_size_v<Message>) {
    f.fail("kind", "'" + kind.substr(0, 32) + "' is not known");
    return f.finish(Message());
  } else {
    std::variant_alternative_t<I, Message> m;
    if (kind != NameOf<decltype(m)>::kName) return read<Message, I + 1>(kind, f);
    fields(Reader(f), m);
    return f.finish(Message(std::move(m)));
  }
}

template <class Message>
Result<Message> message_from(std::string_view line) {
  SLUICE_ASSIGN(object, wire::parse_json(line));
  Fields f(object, "message");
  const std::string kind = f.text("kind");
  return read<Message>(kind, f);
}

}  // namespace

std::string to_line(const WorkerMessage& m) {
  return line_of(m);
}
std::string to_line(const ControllerMessage& m) {
  return line_of(m);
}
Result<WorkerMessage> worker_message_from(std::string_view line) {
  return message_from<WorkerMessage>(line);
}
Result<ControllerMessage> controller_message_from(std::string_view line) {
  return message_from<ControllerMessage>(line);
}

}  // namespace sluice::train
