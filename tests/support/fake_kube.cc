#include "tests/support/fake_kube.h"

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "kube/informer.h"
#include "kube/time_text.h"
#include "wire/http/http.h"

namespace sluice {
namespace {

namespace http = boost::beast::http;
using boost::asio::ip::tcp;
using kube::Key;
using nlohmann::json;
using Request = http::request<http::string_body>;

struct Event {
  int64_t version;
  std::string type;
  json object;
};

struct Collection {
  std::map<Key, json> objects;
  std::vector<Event> events;
};

// "/apis/g/v1/namespaces/NS/KIND/NAME/SUB" taken apart.
struct Path {
  std::string collection, space, name, sub;
};

Path parsed(const std::vector<std::string>& parts) {
  Path p;
  const size_t base = parts[0] == "api" ? 2 : 3;
  std::string prefix;
  for (size_t i = 0; i < base; ++i) prefix += "/" + parts[i];
  size_t at = base;
  if (parts.size() > at + 2 && parts[at] == "namespaces") {
    p.space = parts[at + 1];
    at += 2;
  }
  p.collection = prefix + "/" + parts.at(at);
  if (parts.size() > at + 1) p.name = parts[at + 1];
  if (parts.size() > at + 2) p.sub = parts[at + 2];
  return p;
}

// "a=b,c" over labels.
bool selected(const json& object, const std::string& selector) {
  const json labels = object["metadata"].value("labels", json::object());
  size_t at = 0;
  while (at < selector.size()) {
    const size_t end = std::min(selector.find(',', at), selector.size());
    const std::string term = selector.substr(at, end - at);
    const size_t equals = term.find('=');
    const std::string key = term.substr(0, equals);
    if (!labels.contains(key)) return false;
    if (equals != term.npos && labels[key] != term.substr(equals + 1)) return false;
    at = end + 1;
  }
  return true;
}

json status(int code, const std::string& message) {
  return {{"kind", "Status"},
          {"apiVersion", "v1"},
          {"status", "Failure"},
          {"code", code},
          {"message", message}};
}

}  // namespace

struct FakeKube::State {
  State() : acceptor(io, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)) {
    accepting = std::thread([this] { accept_all(); });
  }
  ~State() {
    {
      const std::lock_guard lock(mutex);
      ending = true;
      ++breaks;
      for (tcp::socket* s : open) ::shutdown(s->native_handle(), SHUT_RDWR);
    }
    changed.notify_all();
    ::shutdown(acceptor.native_handle(), SHUT_RDWR);
    accepting.join();
    for (std::thread& t : serving) t.join();
  }

  void accept_all() {
    for (;;) {
      boost::system::error_code fault;
      auto socket = std::make_unique<tcp::socket>(io);
      acceptor.accept(*socket, fault);
      const std::lock_guard lock(mutex);
      if (ending) return;
      if (fault) continue;
      open.insert(socket.get());
      serving.emplace_back([this, s = std::move(socket)] {
        serve(*s);
        const std::lock_guard guard(mutex);
        open.erase(s.get());
      });
    }
  }

  void serve(tcp::socket& socket) {
    boost::beast::flat_buffer buffer;
    boost::system::error_code fault;
    for (;;) {
      Request request;
      http::read(socket, buffer, request, fault);
      if (fault) return;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [this] { return there || ending; });
        if (ending) return;
      }
      if (!answer(socket, request)) return;
    }
  }

  bool answer(tcp::socket& socket, const Request& request) {
    const std::string target(request.target());
    const wire::Target t = wire::parse_target(target).value();
    const std::string method(request.method_string());
    {
      const std::lock_guard lock(mutex);
      std::string path = target.substr(0, target.find('?'));
      calls.push_back(method + " " + path);
      if (refusal)
        if (const int code = refusal(method, path); code != 0)
          return reply(socket, code, status(code, "refused by the test"));
    }
    if (t.get("watch") == "1") return watch(socket, parsed(t.path), t);
    int code = 200;
    json body;
    {
      const std::lock_guard lock(mutex);
      body = handle(request, parsed(t.path), t, code);
    }
    changed.notify_all();
    return reply(socket, code, body);
  }

  static bool reply(tcp::socket& socket, int code, const json& body) {
    http::response<http::string_body> r{static_cast<http::status>(code), 11};
    r.set("Content-Type", "application/json");
    r.body() = body.dump();
    r.prepare_payload();
    boost::system::error_code fault;
    http::write(socket, r, fault);
    return !fault;
  }

  static bool send(tcp::socket& socket, const std::string& text) {
    boost::system::error_code fault;
    boost::asio::write(socket, boost::asio::buffer(text), fault);
    return !fault;
  }

  bool watch(tcp::socket& socket, const Path& p, const wire::Target& t) {
    int64_t from = std::atoll(t.get("resourceVersion", "0").c_str());
    std::unique_lock lock(mutex);
    if (from < oldest) {
      lock.unlock();
      return reply(socket, 410, status(410, "too old resource version"));
    }
    const int since = breaks;
    if (!send(socket,
              "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
              "Transfer-Encoding: chunked\r\n\r\n"))
      return false;
    while (breaks == since) {
      std::vector<Event> news;
      for (const Event& e : collections[p.collection].events)
        if (e.version > from && (p.space.empty() || kube::key_of(e.object).space == p.space) &&
            selected(e.object, t.get("labelSelector")))
          news.push_back(e);
      from = version;
      lock.unlock();
      for (const Event& e : news) {
        const std::string line = json{{"type", e.type}, {"object", e.object}}.dump() + "\n";
        char size[32];
        std::snprintf(size, sizeof size, "%zx\r\n", line.size());
        if (!send(socket, size + line + "\r\n")) return false;
      }
      lock.lock();
      changed.wait(lock, [&] { return version > from || breaks != since; });
    }
    return false;  // in the middle of its answer
  }

  json stored(const Path& p, json object, const char* type) {
    object["metadata"]["resourceVersion"] = std::to_string(++version);
    Collection& c = collections[p.collection];
    c.events.push_back({version, type, object});
    return c.objects[kube::key_of(object)] = object;
  }

  json created(const Path& p, json object, int& code) {
    json& meta = object["metadata"];
    if (!p.space.empty()) meta["namespace"] = p.space;
    if (collections[p.collection].objects.contains(kube::key_of(object))) {
      code = 409;
      return status(409, "already exists");
    }
    meta["uid"] = "uid-" + std::to_string(++uids);
    meta["generation"] = 1;
    meta["creationTimestamp"] = kube::second_time(unix_now());
    if (!p.sub.empty()) object.erase("status");
    code = 201;
    return stored(p, std::move(object), "ADDED");
  }

  json changed_to(const Path& p, const json& before, json after) {
    after["metadata"]["uid"] = before["metadata"]["uid"];
    if (p.sub == "status") {
      json kept = before;
      kept["status"] = after.value("status", json::object());
      after = std::move(kept);
    } else if (after.value("spec", json()) != before.value("spec", json())) {
      after["metadata"]["generation"] = before["metadata"].value("generation", 1) + 1;
    }
    if (after == before) return before;
    return stored(p, std::move(after), "MODIFIED");
  }

  void erase(const std::string& collection, const Key& key) {
    Collection& c = collections[collection];
    const auto found = c.objects.find(key);
    if (found == c.objects.end()) return;
    json object = found->second;
    c.objects.erase(found);
    const std::string uid = object["metadata"]["uid"];
    object["metadata"]["resourceVersion"] = std::to_string(++version);
    c.events.push_back({version, "DELETED", object});
    std::vector<std::pair<std::string, Key>> owned;
    for (const auto& [name, other] : collections)
      for (const auto& [k, o] : other.objects)
        for (const json& owner : o["metadata"].value("ownerReferences", json::array()))
          if (owner.value("uid", "") == uid) owned.emplace_back(name, k);
    for (const auto& [name, k] : owned) erase(name, k);
  }

  json page(const Path& p, const wire::Target& t) const {
    const auto limit = static_cast<size_t>(std::atoll(t.get("limit", "1000000").c_str()));
    const auto begin = static_cast<size_t>(std::atoll(t.get("continue", "0").c_str()));
    json items = json::array();
    size_t at = 0, more = 0;
    if (const auto c = collections.find(p.collection); c != collections.end())
      for (const auto& [key, object] : c->second.objects) {
        if (!p.space.empty() && key.space != p.space) continue;
        if (!selected(object, t.get("labelSelector"))) continue;
        if (at++ < begin) continue;
        if (items.size() == limit) {
          more = at - 1;
          break;
        }
        items.push_back(object);
      }
    json meta{{"resourceVersion", std::to_string(version)}};
    if (more > 0) meta["continue"] = std::to_string(more);
    return {{"kind", "List"}, {"metadata", meta}, {"items", items}};
  }

  json handle(const Request& request, const Path& p, const wire::Target& t, int& code) {
    const http::verb method = request.method();
    if (p.name.empty() && method == http::verb::get) return page(p, t);
    json body =
        request.body().empty() ? json::object() : json::parse(request.body(), nullptr, false);
    if (method == http::verb::post && p.name.empty()) return created(p, body, code);
    const Key key{p.space, p.name};
    auto& objects = collections[p.collection].objects;
    const auto found = objects.find(key);
    const bool apply = request["Content-Type"] == kube::kApply;
    if (found == objects.end() && method == http::verb::patch && apply)
      return created(p, body, code);
    if (found == objects.end()) {
      code = 404;
      return status(404, p.name + " not found");
    }
    json before = found->second;
    if (method == http::verb::get) return before;
    const std::string wanted =
        body.is_object() ? body.value("/metadata/resourceVersion"_json_pointer, "") : "";
    if (!wanted.empty() && wanted != before["metadata"]["resourceVersion"]) {
      code = 409;
      return status(409, "the object has been modified");
    }
    if (method == http::verb::put) return changed_to(p, before, body);
    if (method == http::verb::patch) {
      json after = before;
      if (body.is_array())
        after = after.patch(body);
      else
        after.merge_patch(body);
      return changed_to(p, before, after);
    }
    erase(p.collection, key);
    return status(200, "deleted");
  }

  boost::asio::io_context io;
  tcp::acceptor acceptor;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, Collection> collections;
  int64_t version = 1, oldest = 0, uids = 0;
  int breaks = 0;
  bool there = true, ending = false;
  Refusal refusal;
  std::vector<std::string> calls;
  std::set<tcp::socket*> open;
  std::list<std::thread> serving;
  std::thread accepting;
};

FakeKube::FakeKube() : state_(std::make_unique<State>()) {}
FakeKube::~FakeKube() = default;

kube::Config FakeKube::config() const {
  return {.server = {.host = "127.0.0.1", .port = state_->acceptor.local_endpoint().port()},
          .tls = false};
}

json FakeKube::put(const std::string& collection, json object) {
  json out;
  {
    const std::lock_guard lock(state_->mutex);
    const Key key = kube::key_of(object);
    const Path p{collection, key.space, key.name, ""};
    const auto& objects = state_->collections[collection].objects;
    const auto found = objects.find(key);
    int code = 0;
    if (found == objects.end()) {
      out = state_->created(p, std::move(object), code);
    } else {
      json after = found->second;
      after.merge_patch(object);
      out = state_->changed_to(p, json(found->second), std::move(after));
    }
  }
  state_->changed.notify_all();
  return out;
}

void FakeKube::remove(const std::string& collection, const std::string& space,
                      const std::string& name) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->erase(collection, {space, name});
  }
  state_->changed.notify_all();
}

std::optional<json> FakeKube::get(const std::string& collection, const std::string& space,
                                  const std::string& name) const {
  const std::lock_guard lock(state_->mutex);
  const auto& objects = state_->collections[collection].objects;
  const auto found = objects.find({space, name});
  if (found == objects.end()) return std::nullopt;
  return found->second;
}

std::vector<json> FakeKube::all(const std::string& collection) const {
  const std::lock_guard lock(state_->mutex);
  std::vector<json> out;
  for (const auto& [key, object] : state_->collections[collection].objects) out.push_back(object);
  return out;
}

void FakeKube::break_watches() {
  {
    const std::lock_guard lock(state_->mutex);
    ++state_->breaks;
  }
  state_->changed.notify_all();
}

void FakeKube::forget_history() {
  const std::lock_guard lock(state_->mutex);
  state_->oldest = ++state_->version;
  for (auto& [name, c] : state_->collections) c.events.clear();
}

void FakeKube::set_there(bool there) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->there = there;
  }
  state_->changed.notify_all();
}

void FakeKube::refuse(Refusal refusal) {
  const std::lock_guard lock(state_->mutex);
  state_->refusal = std::move(refusal);
}

std::vector<std::string> FakeKube::calls() const {
  const std::lock_guard lock(state_->mutex);
  return state_->calls;
}

}  // namespace sluice
