// Any bytes: as a routing table either a fault with a message, or a table that survives its own
// text; as a path, parts that lie within it.
#include <cstdint>
#include <cstdlib>

#include "gateway/head.h"
#include "gateway/table.h"
#include "wire/json/json.h"
#include "wire/json/routing_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto path = gateway::model_path(text); path && path->served.empty()) std::abort();
  if (const auto path = gateway::function_path(text);
      path && (path->served.empty() || !path->rest.starts_with('/')))
    std::abort();
  const auto parsed = wire::parse_json(text);
  if (!parsed.ok()) return parsed.error().message.empty() ? std::abort(), 0 : 0;
  const auto table = gateway::table_from(*parsed);
  if (!table.ok()) return table.error().message.empty() ? std::abort(), 0 : 0;
  const auto again = gateway::table_from(wire::to_json(*table));
  if (!again.ok() || *again != *table) std::abort();
  return 0;
}
