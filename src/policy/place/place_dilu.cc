#include "policy/place/place_dilu.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "policy/place/fragment_tree.h"

namespace sluice::policy {
namespace {

std::optional<Opening> opening_for(const Layout& device, const PlaceRequest& request) {
  for (const Opening& opening : device.openings(device.width(request.sm)))
    if (opening.quota >= request.quota.request) return opening;
  return std::nullopt;
}

template <class T>
void insert_sorted(std::vector<T>& sorted, const T& value) {
  const auto at = std::lower_bound(sorted.begin(), sorted.end(), value);
  if (at == sorted.end() || *at != value) sorted.insert(at, value);
}

// Which functions are on which devices, and which are neighbours. Grows only: within a decision
// no rectangle leaves.
class Neighbourhood {
 public:
  using Function = size_t;
  explicit Neighbourhood(size_t devices) : guests_(devices) {}

  Function number_of(const FunctionView* view) {
    const auto [at, added] = numbers_.try_emplace(view, numbers_.size());
    if (added) hosts_.emplace_back(), neighbours_.emplace_back();
    return at->second;
  }

  // Enters the functions of a device, as each other's neighbours.
  void meet(size_t device, const Layout& layout) {
    std::vector<Function>& guests = guests_[device];
    for (const Room& r : layout.rooms()) {
      if (r.owner == nullptr) continue;
      const Function f = number_of(r.owner);
      if (hosts(device, f)) continue;
      for (const Function g : guests) {
        insert_sorted(neighbours_[f], g);
        insert_sorted(neighbours_[g], f);
      }
      insert_sorted(guests, f);
      hosts_[f].push_back(device);
    }
  }

  bool hosts(size_t device, Function function) const {
    return std::ranges::binary_search(guests_[device], function);
  }
  const std::vector<size_t>& hosts_of(Function function) const { return hosts_[function]; }

  // Those of the function's instances, and of parts on these devices.
  std::vector<Function> neighbours(Function function, std::span<const size_t> devices) const {
    std::vector<Function> all = neighbours_[function];
    for (const size_t device : devices)
      for (const Function g : guests_[device])
        if (g != function) insert_sorted(all, g);
    return all;
  }

 private:
  std::map<const FunctionView*, Function> numbers_;
  std::vector<std::vector<size_t>> hosts_;         // devices, by function
  std::vector<std::vector<Function>> neighbours_;  // sorted, by function
  std::vector<std::vector<Function>> guests_;      // sorted, by device
};

std::vector<Bytes> memories_of(const Layouts& layouts) {
  std::vector<Bytes> all;
  for (size_t i = 0; i < layouts.size(); ++i) all.push_back(layouts[i].device().memory);
  return all;
}

// What Algorithm 1 keeps of the layouts from one request to the next.
class Scheduler : public Layouts::Index {
 public:
  void refresh(Layouts& layouts) {
    if (!tree_) {
      tree_.emplace(memories_of(layouts));
      functions_.emplace(layouts.size());
    }
    for (const size_t i : layouts.take_changed()) {
      const Layout& device = std::as_const(layouts)[i];
      tree_->set(i, fragment_of(device));
      functions_->meet(i, device);
    }
  }

  // Returns the devices that host an instance of the function.
  std::vector<size_t> hosts(const FunctionView* function) {
    return functions_->hosts_of(functions_->number_of(function));
  }

  // Returns the device of another part beside those of `chosen`, with its opening; nothing: none
  // takes it.
  std::optional<std::pair<size_t, Opening>> best(const Layouts& layouts,
                                                 const PlaceRequest& request,
                                                 std::span<const size_t> chosen) {
    const auto function = functions_->number_of(request.function);
    const auto neighbours = functions_->neighbours(function, chosen);
    const Piece piece = piece_of(request.sm, request.quota, request.memory);
    while (true) {
      FragmentTree::Search search = tree_->search(piece, chosen);
      for (const size_t f : neighbours)
        for (const size_t device : functions_->hosts_of(f))
          if (fits(piece, tree_->at(device)) && !functions_->hosts(device, function))
            tree_->try_one(device, search);
      if (search.best == FragmentTree::kNowhere) tree_->try_all(search);
      if (search.best == FragmentTree::kNowhere) return std::nullopt;
      const Layout& device = layouts[search.best];
      const Piece rounded = piece_of(device.width(request.sm), request.quota, request.memory);
      const auto opening = opening_for(device, request);
      if (opening && fits(rounded, tree_->at(search.best))) return {{search.best, *opening}};
      tree_->refuse(search.best, piece);  // its free time is in pieces
    }
  }

 private:
  std::optional<FragmentTree> tree_;
  std::optional<Neighbourhood> functions_;
};

}  // namespace

std::vector<Spot> place_dilu(Layouts& layouts, const PlaceRequest& request) {
  auto& scheduler = layouts.index<Scheduler>();
  scheduler.refresh(layouts);
  std::vector<Spot> spots;
  std::vector<size_t> chosen;  // by parts, or by what these have to be apart from
  if (request.apart) chosen = scheduler.hosts(request.function);
  for (int part = 0; part < request.parts; ++part) {
    const auto best = scheduler.best(layouts, request, chosen);
    if (!best) return {};
    chosen.push_back(best->first);
    spots.push_back({&layouts[best->first], best->second});
  }
  return spots;
}

std::vector<std::pair<Spot, Bytes>> place_in_stages(Layouts& layouts, const PlaceRequest& request) {
  std::vector<std::pair<Spot, Bytes>> stages;  // with the free memory
  for (size_t i = 0; i < layouts.size(); ++i) {
    Layout& device = layouts[i];
    const Fragment free = fragment_of(device);
    if (!fits(piece_of(device.width(request.sm), request.quota, 1), free)) continue;
    if (const auto opening = opening_for(device, request))
      stages.push_back({{&device, *opening}, free.memory});
  }
  std::ranges::stable_sort(stages, std::greater<>(), &std::pair<Spot, Bytes>::second);
  Bytes missing = request.memory;
  size_t count = 0;
  while (count < stages.size() && missing > 0) missing -= stages[count++].second;
  if (missing > 0) return {};
  stages.resize(count);
  // From the smallest on, each has at most an equal part of what is left.
  Bytes left = request.memory;
  for (size_t i = count; i-- > 0;) {
    const auto shares = static_cast<Bytes>(i) + 1;
    stages[i].second = std::min(stages[i].second, (left + shares - 1) / shares);
    left -= stages[i].second;
  }
  return stages;
}

}  // namespace sluice::policy
