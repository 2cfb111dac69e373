// The gateway's admin API on its own socket: the control loop writes the table and reads the
// counters.
#pragma once

#include "gateway/dispatcher.h"
#include "wire/http/http.h"

namespace sluice::gateway {

class AdminApi {
 public:
  AdminApi(Dispatcher& dispatcher, const Clock& clock, std::string routes_file);
  wire::asio::awaitable<wire::HttpResponse> handle(wire::HttpRequest request);

 private:
  wire::HttpResponse put_routes(const std::string& body);
  wire::HttpResponse change_routes(const std::string& body);
  wire::HttpResponse routes_taken();
  nlohmann::json stats(uint64_t since);

  Dispatcher& dispatcher_;
  const Clock& clock_;
  const std::string routes_file_;
  const UnixMillis started_;  // shows a restart: cumulative counters began anew
  // A function as last reported: it is sent again only to readers that have not seen it so.
  struct Told {
    Counters counters;
    bool busy = false;
    uint64_t at = 0;  // the answer's number
  };
  std::map<FunctionName, Told> told_;
  uint64_t answers_ = 0;
};

// Reads the table that an earlier gateway kept; without a valid one, starts empty.
void load_table(const std::string& file, Dispatcher& dispatcher, Time now);

}  // namespace sluice::gateway
