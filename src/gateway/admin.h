// The gateway's admin API on its own socket: the control loop puts the table and reads the
// counters.
#pragma once

#include "gateway/dispatcher.h"
#include "wire/http.h"

namespace sluice::gateway {

class AdminApi {
 public:
  AdminApi(Dispatcher& dispatcher, const Clock& clock, std::string routes_file);
  wire::asio::awaitable<wire::HttpResponse> handle(wire::HttpRequest request);

 private:
  wire::HttpResponse put_routes(const std::string& body);
  nlohmann::json stats(uint64_t since);

  Dispatcher& dispatcher_;
  const Clock& clock_;
  const std::string routes_file_;
  const UnixMillis started_;  // a restart shows: cumulative counters began anew
  // A function as it was told last: it is told again only to those that have not seen it so.
  struct Told {
    Counters counters;
    bool busy = false;
    uint64_t at = 0;  // the answer's number
  };
  std::map<FunctionName, Told> told_;
  uint64_t answers_ = 0;
};

// Reads the table a gateway kept before; without one, or with a broken one, starts empty.
void load_table(const std::string& file, Dispatcher& dispatcher, Time now);

}  // namespace sluice::gateway
