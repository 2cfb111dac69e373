#include "cli/slices_view.h"

#include <algorithm>
#include <vector>

#include "cli/listing.h"
#include "cli/table.h"

namespace sluice::cli {
namespace {

using nlohmann::json;

constexpr int kWidth = 20;  // characters for a whole window

std::string repeated(const char* cell, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += cell;
  return out;
}

// In cells, rounded, but at least one for a value above zero.
int cells(int permille) {
  return permille <= 0 ? 0 : std::clamp((permille * kWidth + 500) / 1000, 1, kWidth);
}

std::string bar(int request, int limit, int used) {
  const int requested = cells(request), most = std::max(requested, cells(limit));
  const int busy = std::min(cells(used), most);
  return repeated("█", std::min(busy, requested)) + repeated("▓", std::max(0, busy - requested)) +
         repeated("░", std::max(0, requested - busy)) +
         repeated("·", most - std::max(busy, requested));
}

std::string padded(std::string text, size_t width, bool right = false) {
  const std::string pad(width > text.size() ? width - text.size() : 0, ' ');
  return right ? pad + text : text + pad;
}

std::string line(const json& i, const char* parts, size_t width) {
  const json& slice = i["slice"];
  const int request = slice["request"], limit = slice["limit"], used = i.value("used", 0);
  std::string text = padded(i["id"], width) + "  " + padded(percent(request), 5, true);
  if (slice["sm"] != 1000) text += " on " + percent(slice["sm"]) + " of the " + parts;
  text += padded(limit > request ? " of at most " + percent(limit) : "", 16) + "  uses " +
          padded(std::to_string((used + 5) / 10) + "%", 4, true) + "  " + bar(request, limit, used);
  if (above_limit(i)) text += "  above its limit";
  const std::string state = i["state"];
  return state == "ready" ? text : text + "  " + state;
}

}  // namespace

std::string slices_view(const json& devices, const json& instances) {
  size_t width = 0, device_width = 0;
  for (const json& i : instances)
    if (i["state"] != "gone") width = std::max(width, i["id"].get<std::string>().size());
  for (const json& d : devices)
    device_width = std::max(device_width, d["id"].get<std::string>().size());
  const json rows = by_part(instances);
  std::string out;
  for (const json& d : devices) {
    std::string head = padded(d["id"], device_width) + "  " +
                       padded(percent(d["reserved"]), 5, true) + " reserved" +
                       (d.value("drained", false) ? ", drained" : "") + "  ";
    const char* parts = d.value("kind", "cpu") == "cpu" ? "cores" : "SMs";
    bool empty = true;
    for (const json& i : rows) {
      if (i["device"] != d["id"] || i["state"] == "gone") continue;
      out += head + line(i, parts, width) + "\n";
      head = std::string(head.size(), ' ');
      empty = false;
    }
    if (empty) out += head.substr(0, head.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

}  // namespace sluice::cli
