#include "policy/place/place_rectangles.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace sluice::policy {
namespace {

constexpr Rectangle kDevice{kNone, kWhole, kNone, kWhole};

Share right(const Rectangle& r) {
  return r.sm_begin + r.sm;
}
Share top(const Rectangle& r) {
  return r.time_begin + r.time;
}

bool within(const Rectangle& inner, const Rectangle& outer) {
  return outer.sm_begin <= inner.sm_begin && right(inner) <= right(outer) &&
         outer.time_begin <= inner.time_begin && top(inner) <= top(outer);
}

int64_t covers(Share sm, Share time) {
  return int64_t{sm.permille} * time.permille;
}

// Adds the maximal pieces of `whole` beside `taken`, which overlaps it.
void subdivide(const Rectangle& whole, const Rectangle& taken, std::vector<Rectangle>& pieces) {
  const Share left = taken.sm_begin - whole.sm_begin, rest = right(whole) - right(taken);
  const Share before = taken.time_begin - whole.time_begin, behind = top(whole) - top(taken);
  if (left > kNone) pieces.push_back({whole.sm_begin, left, whole.time_begin, whole.time});
  if (rest > kNone) pieces.push_back({right(taken), rest, whole.time_begin, whole.time});
  if (before > kNone) pieces.push_back({whole.sm_begin, whole.sm, whole.time_begin, before});
  if (behind > kNone) pieces.push_back({whole.sm_begin, whole.sm, top(taken), behind});
}

Opening opening_of(const Rectangle& r, Share sm) {
  return {r.sm_begin, sm, r.time_begin, top(r), r.time};
}

}  // namespace

Rectangle rectangle_of(const Room& room) {
  return {room.position.sm_begin, room.sm, room.position.time_begin, room.quota};
}

bool overlap(const Rectangle& a, const Rectangle& b) {
  return intersect(a.sm_begin, a.sm, b.sm_begin, b.sm) &&
         intersect(a.time_begin, a.time, b.time_begin, b.time);
}

// None of the untouched ones lies in a piece: a piece is part of a rectangle that held none.
void cut_out(std::vector<Rectangle>& free, const Rectangle& taken) {
  if (taken.sm <= kNone || taken.time <= kNone) return;
  std::vector<Rectangle> pieces;
  std::erase_if(free, [&](const Rectangle& r) {
    const bool cut = overlap(r, taken);
    if (cut) subdivide(r, taken, pieces);
    return cut;
  });
  const size_t untouched = free.size();
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto holds = [&](const Rectangle& other) { return within(pieces[i], other); };
    const bool in_another =
        std::any_of(free.begin(), free.begin() + static_cast<std::ptrdiff_t>(untouched), holds) ||
        std::any_of(pieces.begin(), pieces.begin() + static_cast<std::ptrdiff_t>(i), holds) ||
        std::any_of(pieces.begin() + static_cast<std::ptrdiff_t>(i) + 1, pieces.end(),
                    [&](const Rectangle& other) { return other != pieces[i] && holds(other); });
    if (!in_another) free.push_back(pieces[i]);
  }
}

// FreeIndex: the free rectangles of all devices that take instances, by type of device and area.
class FreeIndex {
 public:
  explicit FreeIndex(Layouts& layouts);
  // Returns that of the layouts, made when first asked for. REQUIRES: there are some.
  static FreeIndex& of(Layouts& layouts);

  void report(uint32_t at) { changed_.push_back(at); }
  void refresh();
  // Returns the best spot on none of the devices of `but`, or none.
  std::optional<Spot> best(const PlaceRequest& request, const std::vector<Spot>& but) const;

 private:
  using Shape = std::tuple<int64_t, Share, Share>;  // area, sm, time
  using Where = std::pair<Bytes, uint32_t>;         // memory left, device
  struct Kind {
    const Device* example;
    std::map<Shape, std::set<Where>> free;
  };
  struct Entry {
    Rectangles* layout;
    size_t kind;
    Bytes memory = 0;
    std::vector<Shape> shapes;
  };
  struct Found {
    Shape shape;
    Where where;
  };

  static Shape shape_of(const Rectangle& r) { return {covers(r.sm, r.time), r.sm, r.time}; }
  size_t kind_of(const Device& device);
  void add(uint32_t at);
  void remove(uint32_t at);
  std::optional<Found> best_of(const Kind& kind, Share sm, const PlaceRequest& request,
                               const std::vector<Spot>& but) const;

  std::vector<Kind> kinds_;
  std::vector<Entry> devices_;
  std::vector<uint32_t> changed_;
};

FreeIndex::FreeIndex(Layouts& layouts) {
  devices_.reserve(layouts.size());
  for (uint32_t at = 0; at < layouts.size(); ++at) {
    auto& layout = static_cast<Rectangles&>(layouts[at]);
    layout.at_ = at;
    devices_.push_back({&layout, kind_of(layout.device()), 0, {}});
    if (takes(layout, 0)) add(at);
  }
}

FreeIndex& FreeIndex::of(Layouts& layouts) {
  std::shared_ptr<FreeIndex>& first = static_cast<Rectangles&>(layouts[0]).index_;
  if (first == nullptr) {
    const auto made = std::make_shared<FreeIndex>(layouts);
    for (size_t i = 0; i < layouts.size(); ++i) static_cast<Rectangles&>(layouts[i]).index_ = made;
  }
  return *first;
}

size_t FreeIndex::kind_of(const Device& device) {
  const auto same = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& k) {
    return k.example->sm_quantum == device.sm_quantum && alike(*k.example, device);
  });
  const auto found = static_cast<size_t>(same - kinds_.begin());
  if (same == kinds_.end()) kinds_.push_back({&device, {}});
  return found;
}

void FreeIndex::add(uint32_t at) {
  Entry& entry = devices_[at];
  entry.memory = entry.layout->free_memory();
  if (!entry.layout->used()) {
    entry.shapes = {shape_of(kDevice)};
  } else {
    entry.layout->tidy();
    for (const Rectangle& r : entry.layout->free()) entry.shapes.push_back(shape_of(r));
    for (const Rectangle& r : entry.layout->released()) entry.shapes.push_back(shape_of(r));
  }
  for (const Shape& shape : entry.shapes) {
    std::set<Where>& there = kinds_[entry.kind].free[shape];
    there.emplace_hint(there.end(), entry.memory, at);
  }
}

void FreeIndex::remove(uint32_t at) {
  Entry& entry = devices_[at];
  auto& free = kinds_[entry.kind].free;
  for (const Shape& shape : entry.shapes) {
    const auto there = free.find(shape);
    if (there == free.end()) continue;  // of two equal ones, the second
    there->second.erase({entry.memory, at});
    if (there->second.empty()) free.erase(there);
  }
  entry.shapes.clear();
}

void FreeIndex::refresh() {
  for (const uint32_t at : changed_) {
    remove(at);
    if (takes(*devices_[at].layout, 0)) add(at);
  }
  changed_.clear();
}

std::optional<FreeIndex::Found> FreeIndex::best_of(const Kind& kind, Share sm,
                                                   const PlaceRequest& request,
                                                   const std::vector<Spot>& but) const {
  const Share time = request.quota.request;
  for (auto f = kind.free.lower_bound({covers(sm, time), kNone, kNone}); f != kind.free.end();
       ++f) {
    const auto& [shape, devices] = *f;
    if (std::get<1>(shape) < sm || std::get<2>(shape) < time) continue;
    for (auto d = devices.lower_bound({request.memory, 0}); d != devices.end(); ++d) {
      const Layout* layout = devices_[d->second].layout;
      const auto has = [&](const Spot& spot) { return spot.device == layout; };
      if (std::none_of(but.begin(), but.end(), has)) return Found{shape, *d};
    }
  }
  return std::nullopt;
}

std::optional<Spot> FreeIndex::best(const PlaceRequest& request,
                                    const std::vector<Spot>& but) const {
  std::optional<Found> best;
  Share width;
  for (const Kind& kind : kinds_) {
    if (request.like != nullptr && !alike(*request.like, *kind.example)) continue;
    const Share sm = Rectangles(*kind.example).width(request.sm);
    const auto left = [&](const Found& f, Share w) {
      return std::pair(std::get<0>(f.shape) - covers(w, request.quota.request), f.where);
    };
    const std::optional<Found> found = best_of(kind, sm, request, but);
    if (!found || (best && left(*best, width) <= left(*found, sm))) continue;
    best = found, width = sm;
  }
  if (!best) return std::nullopt;
  Rectangles& layout = *devices_[best->where.second].layout;
  std::optional<Rectangle> corner;
  const auto consider = [&](const Rectangle& r) {
    if (shape_of(r) != best->shape) return;
    const auto rank = [](const Rectangle& q) { return std::tie(q.time_begin, q.sm_begin); };
    if (!corner || rank(r) < rank(*corner)) corner = r;
  };
  std::for_each(layout.released().begin(), layout.released().end(), consider);
  if (!corner) std::for_each(layout.free().begin(), layout.free().end(), consider);
  SLUICE_CHECK(corner, layout.device().id);
  return Spot{&layout, opening_of(*corner, width)};
}

const std::vector<Rectangle>& Rectangles::free() const {
  if (seen_ == kNothing) free_ = {kDevice}, seen_ = 0;
  for (; seen_ < rooms_.size(); ++seen_) cut_out(free_, rectangle_of(rooms_[seen_]));
  return free_;
}

void Rectangles::rebuild() {
  seen_ = kNothing;
}

void Rectangles::report() {
  if (index_) index_->report(at_);
}

void Rectangles::offer_again(const Rectangle& rectangle) {
  const auto& all = free();
  const bool is_free =
      std::any_of(all.begin(), all.end(), [&](const Rectangle& r) { return within(rectangle, r); });
  if (!is_free || std::count(all.begin(), all.end(), rectangle) > 0 ||
      std::count(released_.begin(), released_.end(), rectangle) > 0)
    return;
  released_.push_back(rectangle);
  report();
}

void Rectangles::tidy() {
  if (free().size() + released_.size() <= kMostFree) return;
  released_.clear();
  settle();
}

// From the earliest on, so that each finds those before it at their new place.
void Rectangles::settle() {
  std::vector<Room*> relocatable;
  for (Room& r : rooms_)
    if (r.movable) relocatable.push_back(&r);
  std::sort(relocatable.begin(), relocatable.end(), [](const Room* a, const Room* b) {
    return std::tie(a->position.time_begin, a->id) < std::tie(b->position.time_begin, b->id);
  });
  for (Room* r : relocatable) r->position.time_begin = around(*r).begin;
  rebuild();
}

std::vector<Opening> Rectangles::openings(Share sm) const {
  std::vector<Rectangle> wide;
  const auto is_wide = [&](const Rectangle& r) { return r.sm >= sm; };
  std::copy_if(released_.begin(), released_.end(), std::back_inserter(wide), is_wide);
  std::copy_if(free().begin(), free().end(), std::back_inserter(wide), is_wide);
  const auto rank = [](const Rectangle& r) {
    return std::tuple(covers(r.sm, r.time), r.time_begin, r.sm_begin);
  };
  std::stable_sort(wide.begin(), wide.end(),
                   [&](const Rectangle& a, const Rectangle& b) { return rank(a) < rank(b); });
  std::vector<Opening> found;
  for (const Rectangle& r : wide) found.push_back(opening_of(r, sm));
  return found;
}

void Rectangles::place(Room room, const Opening& opening) {
  SLUICE_CHECK(room.quota > kNone && room.quota <= opening.quota, room.id);
  room.sm = opening.sm;
  room.position = {opening.sm_begin, opening.time_begin};
  const Rectangle taken = rectangle_of(room);
  std::erase_if(released_, [&](const Rectangle& r) { return overlap(r, taken); });
  rooms_.push_back(std::move(room));
  report();
}

Rectangles::Interval Rectangles::around(const Room& room) const {
  Interval free{kNone, kWhole};
  const Share begin = room.position.time_begin, end = begin + room.quota;
  for (const Room& r : rooms_) {
    if (&r == &room || r.quota == kNone) continue;
    if (!intersect(r.position.sm_begin, r.sm, room.position.sm_begin, room.sm)) continue;
    if (r.position.time_begin < begin)
      free.begin = std::max(free.begin, r.position.time_begin + r.quota);
    else
      free.end = std::min(free.end, r.position.time_begin);
  }
  return {std::min(free.begin, begin), std::max(free.end, end)};  // where they overlapped already
}

Share Rectangles::max_quota(const InstanceId& id) const {
  const Interval free = around(room(id));
  return free.end - free.begin;
}

void Rectangles::resize(const InstanceId& id, Share quota) {
  Room& r = rooms_[index(id)];
  const Interval free = around(r);
  SLUICE_CHECK(quota > kNone && quota <= free.end - free.begin, id);
  r.quota = quota;
  r.position.time_begin = std::min(r.position.time_begin, free.end - quota);
  const Rectangle taken = rectangle_of(r);
  std::erase_if(released_, [&](const Rectangle& q) { return overlap(q, taken); });
  rebuild();
  report();
}

std::unique_ptr<Layout> rectangles_layout(const Device& device) {
  return std::make_unique<Rectangles>(device);
}

std::vector<Spot> place_rectangles(Layouts& layouts, const PlaceRequest& request) {
  if (layouts.size() == 0) return {};
  FreeIndex& index = FreeIndex::of(layouts);
  index.refresh();
  std::vector<Spot> spots;
  while (static_cast<int>(spots.size()) < request.parts) {
    const std::optional<Spot> spot = index.best(request, spots);
    if (!spot) return {};
    spots.push_back(*spot);
  }
  return spots;
}

}  // namespace sluice::policy
