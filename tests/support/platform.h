// The whole platform as a user starts it: `sluice up` on a data directory of its own, with
// fake_runtime's instances and free ports, for tests across processes. Waits end by a process's
// death, by the loop's next tick, or, without an event, by polling.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <future>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cli/load_run.h"
#include "tests/support/eventually.h"
#include "wire/http/http.h"

namespace sluice {

using nlohmann::json;
using wire::http::verb;

// Longer than anything takes on a shared machine.
inline constexpr Nanos kPatience = Seconds(120);

std::string program(const std::string& name);  // beside this test
Fd pidfd_of(pid_t pid);
bool ends_within(const Fd& pidfd, Nanos patience);
bool is_dead(pid_t pid);  // or a zombie

// Removes a data directory and the target of its run/ link, with all that is mounted there.
void remove_data(const std::string& data);

// A program run to its end, which comes within kPatience.
struct Ended {
  int code = 0;  // 128 + signal where one ended it
  std::string out, err;
};
Ended run(std::vector<std::string> words, const std::string& input = "", uid_t user = geteuid());

// A function file for one function of fake_runtime's.
struct FunctionText {
  std::string name = "f";
  std::string words;  // the words of its model (fake_runtime.cc)
  int replicas = 1;
  int request = 20;  // per cent of a device each
  std::string more;  // lines of its spec
};

class Platform {
 public:
  // `prepare` gets the data directory before anything is there; if it returns false, nothing is
  // started. As another `user`, which only root can choose, all of it runs from copies of the
  // programs, because the build's folders may be closed to others. `programs`: a folder that has
  // them; empty: the test's.
  explicit Platform(std::vector<std::string> flags = {},
                    const std::function<bool(const std::string&)>& prepare = {},
                    uid_t user = geteuid(), std::string programs = "");
  ~Platform();  // ends it, whatever state it is in
  bool prepared() const { return prepared_; }

  void launch(const std::vector<std::string>& more = {});  // `sluice up`; not waited for
  void wait_until_serves();                                // node, control and gateway answer
  // Ends the supervisor alone. Returns its exit code, 128 + signal if one ended it.
  int stop(int signal = SIGTERM);
  pid_t supervisor() const { return pid_; }
  std::string said() const;  // by the supervisor, on stderr

  // `sluice --data DATA WORDS…`
  Ended cli(std::vector<std::string> words, const std::string& input = "") const;
  json cli_json(std::vector<std::string> words) const;  // with -o json; it must succeed

  // The pid of one of the supervisor's children: "node", "control", "gateway". 0: none.
  pid_t pid_of(const std::string& process) const;
  // Kills it and waits until it is dead.
  void kill_process(const std::string& process) const;

  json api(verb method, const std::string& target, const json& body = nullptr) const;
  json get(const std::string& target) const { return api(verb::get, target); }
  // Returns GET's answer once `holds`; after kPatience the test ends.
  json until(const std::string& target, const std::function<bool(const json&)>& holds) const;
  json function(const std::string& name = "f") const;
  // Returns the living instances of a function, by id.
  std::vector<json> instances(const std::string& name = "f") const;
  std::set<pid_t> pids(const std::string& name = "f") const;
  pid_t a_pid(const std::string& name = "f") const;  // of one of them; waits until there is one

  std::string model(const std::string& words) const;  // a file with these words
  std::string file_of(const FunctionText& f) const;   // the function file's text
  Ended apply(const FunctionText& f) const;
  // Applies it, and waits until all its instances are ready on its newest revision and no others.
  void deploy(const FunctionText& f) const;
  void wait_until_settled(const std::string& name, int replicas) const;

  wire::Endpoint gateway() const;
  // One request. Returns {"status", …body}.
  json ask(const std::string& name = "f", const std::string& query = "") const;
  // Returns the number of requests that the gateway has seen to their end.
  uint64_t answered(const std::string& name = "f") const;

  std::string data;

 private:
  std::string own_program(const std::string& name) const;

  std::vector<std::string> flags_;
  uid_t user_;
  std::string programs_;
  bool prepared_ = true;
  pid_t pid_ = 0;
};

// An open-loop load that lasts until it is ended.
inline constexpr int kLoadConnections = 8;  // as many requests are open at once at most
class Load {
 public:
  Load(const Platform& platform, double rate, const std::string& query = "",
       const std::string& name = "f");
  ~Load();
  // Returns once `more` requests have been answered from now on.
  void flows(uint64_t more = 20) const;
  // Sends no more, and waits for open requests.
  cli::LoadResult end();

 private:
  const Platform& platform_;
  const std::string name_;
  std::atomic<bool> stop_ = false;
  std::vector<cli::LoadResult> results_;
  std::thread thread_;
};
void expect_nothing_lost(const cli::LoadResult& result);

// A request that is answered when released.
class HeldRequest {
 public:
  explicit HeldRequest(const Platform& platform, const std::string& name = "f");
  json answer();

 private:
  const std::string file_;
  std::future<json> answer_;
};
// Returns the instance that has a request in hand, by the gateway's state.
pid_t busy_one(const Platform& platform, const std::string& name = "f");

}  // namespace sluice
