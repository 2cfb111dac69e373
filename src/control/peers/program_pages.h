// ProgramPages: fetches the programs' own pages of metrics once a second (metrics_page.h). A page
// is a user's program's: it may hang, be endless or hold anything. So each fetch takes a second and
// a mebibyte at most, a page has one fetch at a time, and redirects are not followed. A page that
// fails delays no other one; the log says so once.
//
// Thread-safe. A thread of its own fetches.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "control/cluster.h"

namespace sluice::control {

class ProgramPages {
 public:
  explicit ProgramPages(Nanos every = Seconds(1));
  ~ProgramPages();
  ProgramPages(const ProgramPages&) = delete;
  ProgramPages& operator=(const ProgramPages&) = delete;

  // Replaces the pages that are fetched.
  void watch(const std::vector<MetricsPage>& pages);
  // Returns each program's counts, as last fetched. One whose last fetch failed has none.
  std::map<InstanceId, ProgramCounts> latest() const;

 private:
  struct Watched {
    MetricsPage page;
    std::optional<ProgramCounts> counts;
    Time counted_at{};  // when a count was last believed
    bool under_way = false, failed_once = false;
  };
  boost::asio::awaitable<void> run();
  std::vector<std::shared_ptr<Watched>> begin_all();
  boost::asio::awaitable<void> fetch(std::shared_ptr<Watched> watched);
  void take(Watched& watched, const Result<std::optional<ProgramCounts>>& fetched);

  const Nanos every_;
  const SteadyClock clock_;
  mutable std::mutex mutex_;  // guards the pages
  std::map<InstanceId, std::shared_ptr<Watched>> pages_;
  boost::asio::io_context io_;
  std::thread thread_;
};

}  // namespace sluice::control
