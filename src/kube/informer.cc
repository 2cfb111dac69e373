#include "kube/informer.h"

#include <boost/asio/steady_timer.hpp>

#include "wire/http/await.h"

namespace sluice::kube {
namespace {

using nlohmann::json;

constexpr int kPage = 500;          // objects in one answer to a list
constexpr int kWatchSeconds = 300;  // then the server ends a watch, and another begins
constexpr Nanos kFirstRetry = Millis(100), kLastRetry = Seconds(10);
constexpr int kGone = 410;

std::string text_at(const json& object, const char* of, const char* field) {
  const auto outer = object.find(of);
  if (outer == object.end() || !outer->is_object()) return "";
  const auto inner = outer->find(field);
  return inner != outer->end() && inner->is_string() ? inner->get<std::string>() : "";
}

std::string joined(const std::string& path, const std::string& query, const std::string& more) {
  return path + "?" + (query.empty() ? "" : query + "&") + more;
}

// One list and the watches after it.
class Following {
 public:
  Following(Client& client, std::string path, std::string query, WatchSink sink)
      : client_(client), path_(std::move(path)), query_(std::move(query)), sink_(std::move(sink)) {}

  asio::awaitable<void> run() {
    Random random(std::hash<std::string>{}(path_ + query_));
    Nanos pause = kFirstRetry;
    for (;;) {
      Result<void> ended;
      if (version_.empty())
        ended = co_await list();
      else
        ended = co_await watch();
      sink_.current(ended.ok());
      if (ended.ok()) {
        pause = kFirstRetry;
        continue;
      }
      if (pause == kFirstRetry) log::info("{}: {}", path_, ended.error().message);
      const auto jittered = std::chrono::duration_cast<Nanos>(pause * (0.5 + random.uniform() / 2));
      asio::steady_timer timer(client_.io(), jittered);
      (void)co_await timer.async_wait(wire::kAwait);
      pause = std::min(pause * 2, kLastRetry);
    }
  }

 private:
  asio::awaitable<Result<void>> list() {
    std::set<Key> missing = sink_.keys();
    std::string more, version;
    do {
      std::string query = "limit=" + std::to_string(kPage);
      if (!more.empty()) query += "&continue=" + more;
      const Result<json> page = co_await client_.call(Call(joined(path_, query_, query)));
      if (!page.ok()) co_return page.error();
      version = text_at(*page, "metadata", "resourceVersion");
      more = text_at(*page, "metadata", "continue");
      if (const auto items = page->find("items"); items != page->end() && items->is_array())
        for (const json& item : *items) {
          missing.erase(key_of(item));
          sink_.set(item);
        }
    } while (!more.empty());
    for (const Key& key : missing) sink_.remove(key);
    version_ = version;
    sink_.synced();
    if (version.empty()) co_return Error{ErrorKind::kInternal, "a list without a version"};
    co_return Result<void>();
  }

  asio::awaitable<Result<void>> watch() {
    const std::string target =
        joined(path_, query_,
               "watch=1&allowWatchBookmarks=true&timeoutSeconds=" + std::to_string(kWatchSeconds) +
                   "&resourceVersion=" + version_);
    bool gone = false, told = false;
    Error fault;
    const Result<int> status = co_await client_.stream(target, [&](std::string_view line) {
      const json event = json::parse(line, nullptr, false);
      if (!event.is_object()) return;
      const Result<void> taken = take(event);
      if (taken.ok() && !told) sink_.current(true);
      told |= taken.ok();
      if (taken.ok()) return;
      gone |= taken.error().kind == ErrorKind::kNotFound;
      fault = taken.error();
    });
    if (status.ok() && *status == kGone) gone = true;
    if (gone) version_.clear();  // a list follows at once
    if (gone || told) co_return Result<void>();
    if (!status.ok()) co_return status.error();
    if (*status == 200 && fault.message.empty()) co_return Result<void>();
    co_return Error{ErrorKind::kUnavailable,
                    "watch: " + std::to_string(*status) + " " + fault.message};
  }

  static Error refusal(const json& status) {
    const auto code = status.find("code");
    const bool gone = code != status.end() && *code == kGone;
    return {gone ? ErrorKind::kNotFound : ErrorKind::kInternal, message_of(status)};
  }

  // kNotFound: its version is too old, and the watch has ended.
  Result<void> take(const json& event) {
    if (const auto kind = event.find("kind"); kind != event.end() && *kind == "Status")
      return refusal(event);
    const json type = event.value("type", json());
    const auto object = event.find("object");
    if (object == event.end() || !object->is_object())
      return Error{ErrorKind::kInternal, "an event without an object"};
    if (type == "ERROR") return refusal(*object);
    if (std::string version = text_at(*object, "metadata", "resourceVersion"); !version.empty())
      version_ = std::move(version);
    if (type == "BOOKMARK") return {};
    if (type == "DELETED")
      sink_.remove(key_of(*object));
    else
      sink_.set(*object);
    sink_.synced();
    return {};
  }

  Client& client_;
  const std::string path_, query_;
  const WatchSink sink_;
  std::string version_;  // empty: a list is needed
};

}  // namespace

Key key_of(const json& object) {
  return {text_at(object, "metadata", "namespace"), text_at(object, "metadata", "name")};
}

asio::awaitable<void> follow(Client& client, std::string path, std::string query, WatchSink sink) {
  Following following(client, std::move(path), std::move(query), std::move(sink));
  co_await following.run();
}

}  // namespace sluice::kube
