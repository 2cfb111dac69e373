// An informer: a copy of the API server's objects of one kind, kept up to date by list and watch.
// It begins again from a list when its version is too old (410), and goes on from where it was when
// a watch breaks; while the API server does not answer, the copy stays as it was.
//
// run() belongs to the client's io_context; the copy may be read from any thread.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/random.h"
#include "kube/client.h"

namespace sluice::kube {

// Of an object within its kind.
struct Key {
  std::string space, name;

  auto operator<=>(const Key&) const = default;
};
Key key_of(const nlohmann::json& object);

// What a watch tells. Objects are whole.
struct WatchSink {
  std::function<void(const nlohmann::json& object)> set;
  std::function<void(const Key& key)> remove;
  std::function<std::set<Key>()> keys;  // of the copy: what a new list lacks is removed
  std::function<void()> synced;         // the first list is complete; then after each change
  std::function<void(bool)> current;    // whether the copy follows the server: at each turn of it
};

// Lists and watches `path` ("/api/v1/pods"), with `query` ("labelSelector=a%3Db"; may be empty),
// forever.
asio::awaitable<void> follow(Client& client, std::string path, std::string query, WatchSink sink);

// T: a type with `static Result<T> parse(const nlohmann::json&)`. An object that cannot be read is
// logged, and is not in the copy.
template <class T>
class Informer {
 public:
  using Objects = std::map<Key, std::shared_ptr<const T>>;

  // `on_change` is called on the client's thread after each change, without the copy locked.
  Informer(Client& client, std::string path, std::string query = "",
           std::function<void()> on_change = {})
      : client_(client),
        path_(std::move(path)),
        query_(std::move(query)),
        on_change_(std::move(on_change)) {}
  Informer(const Informer&) = delete;

  asio::awaitable<void> run() {
    WatchSink sink{.set = [this](const nlohmann::json& o) { set(o); },
                   .remove = [this](const Key& k) { remove(k); },
                   .keys = [this] { return keys(); },
                   .synced = [this] { changed(); },
                   .current = [this](bool is) { current_ = is; }};
    co_await follow(client_, path_, query_, std::move(sink));
  }

  // Whether the copy has been complete once.
  bool synced() const {
    const std::lock_guard lock(mutex_);
    return synced_;
  }
  // Whether the API server answers, as far as is known: a peer that has gone silent is found out
  // within 25 s.
  bool current() const { return current_; }
  Objects all() const {
    const std::lock_guard lock(mutex_);
    return objects_;
  }
  std::shared_ptr<const T> find(const Key& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(key);
    return found != objects_.end() ? found->second : nullptr;
  }

 private:
  static Result<T> read(const nlohmann::json& object) {
    try {
      return T::parse(object);
    } catch (const nlohmann::json::exception& fault) {  // a field of another type
      return Error{ErrorKind::kInvalid, key_of(object).name + ": " + fault.what()};
    }
  }
  void set(const nlohmann::json& object) {
    Result<T> parsed = read(object);
    if (!parsed.ok()) log::warn("{}: {}", path_, parsed.error().message);
    const std::lock_guard lock(mutex_);
    if (parsed.ok())
      objects_.insert_or_assign(key_of(object), std::make_shared<const T>(std::move(*parsed)));
    else
      objects_.erase(key_of(object));
  }
  void remove(const Key& key) {
    const std::lock_guard lock(mutex_);
    objects_.erase(key);
  }
  std::set<Key> keys() const {
    const std::lock_guard lock(mutex_);
    std::set<Key> out;
    for (const auto& [key, object] : objects_) out.insert(key);
    return out;
  }
  void changed() {
    {
      const std::lock_guard lock(mutex_);
      synced_ = true;
    }
    if (on_change_) on_change_();
  }

  Client& client_;
  const std::string path_, query_;
  const std::function<void()> on_change_;
  mutable std::mutex mutex_;
  Objects objects_;
  bool synced_ = false;
  std::atomic<bool> current_ = false;
};

}  // namespace sluice::kube
