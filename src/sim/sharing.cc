#include "sim/sharing.h"

#include <algorithm>
#include <array>
#include <compare>
#include <vector>

namespace sluice::sim {
namespace {

constexpr int kHundredth = 10;  // of the window, in permille
constexpr int64_t kMillion = 1'000'000;

constexpr std::array kRules{
    SharingRule{.arbiter = "planned", .keeps_phases = true, .keeps_requests = true},
    SharingRule{.arbiter = "deadline", .keeps_phases = true, .keeps_requests = true},
    SharingRule{.arbiter = "multi_token", .keeps_requests = true},
    SharingRule{.arbiter = "window", .keeps_requests = true, .fit = SharingRule::Fit::kLane},
    SharingRule{.arbiter = "tgs"},
    SharingRule{.arbiter = "introspective", .fit = SharingRule::Fit::kAlways, .bounded = false},
    SharingRule{.arbiter = "share_fixed_limit", .fit = SharingRule::Fit::kAlways},
    SharingRule{.arbiter = "share_fixed_request", .lends = false, .fit = SharingRule::Fit::kAlways},
};

// A client in the window that is played.
struct Player {
  Sharer* sharer;
  int64_t request, limit;  // of the window, in millionths
  int64_t used = 0;
  bool running = false;  // in this hundredth

  const policy::ShareClient& client() const { return *sharer->client; }
};

// The order of claims in a hundredth: the smaller goes first.
struct Claim {
  int order;     // of classes: in phase, under its request, borrower
  int64_t part;  // within one
  auto operator<=>(const Claim&) const = default;
};

Claim claim_of(const SharingRule& rule, const Player& p, int64_t at) {
  const int begin = p.client().position.time_begin.permille;
  const bool lacks = rule.keeps_requests && p.used < p.request;
  if (lacks && rule.keeps_phases && begin <= at && at < begin + p.request / 1000) return {0, 0};
  if (lacks) return {1, p.used - p.request};
  return {2, p.used * 1'000'000 / p.limit};
}

bool fits(const SharingRule& rule, const Player& p, const std::vector<Player>& all, int running) {
  if (rule.fit == SharingRule::Fit::kAlways) return true;
  if (rule.fit == SharingRule::Fit::kDevice)
    return running + p.client().sm.permille <= kWhole.permille;
  return std::ranges::none_of(all, [&](const Player& other) {
    return other.running && other.client().position.sm_begin == p.client().position.sm_begin;
  });
}

// Chooses the clients that run in the hundredth. Returns their sm.
int choose(const SharingRule& rule, std::vector<Player>& all, int64_t at) {
  int running = 0;
  for (Player& p : all) p.running = false;
  while (true) {
    Player* first = nullptr;
    for (Player& p : all) {
      if (p.running || p.used >= p.limit || !fits(rule, p, all, running)) continue;
      if (first == nullptr || claim_of(rule, p, at) < claim_of(rule, *first, at)) first = &p;
    }
    if (first == nullptr) return running;
    first->running = true;
    running += first->client().sm.permille;
  }
}

// Returns how long the chosen run: a hundredth, or until one has used its limit where none waits.
int64_t length(const std::vector<Player>& all, int64_t at, int crowd) {
  const bool waits =
      std::ranges::any_of(all, [](const Player& p) { return !p.running && p.used < p.limit; });
  int64_t longest = std::min<int64_t>(waits ? kHundredth : kWhole.permille, kWhole.permille - at);
  for (const Player& p : all)
    if (p.running)
      longest = std::min(longest, ((p.limit - p.used) * crowd + kMillion - 1) / kMillion);
  return longest;
}

}  // namespace

const SharingRule* find_sharing(std::string_view arbiter) {
  const auto found = std::ranges::find(kRules, arbiter, &SharingRule::arbiter);
  return found == kRules.end() ? nullptr : &*found;
}

int crowding(Share sm, Share others) {
  return std::max(sm + others, kWhole).permille;
}

int slowness(Share sm, Share others, Share contention) {
  const int shared = crowding(sm, others);
  return shared + shared * contention.permille / 1000 * others.permille / 1000;
}

void share_window(const SharingRule& rule, Share contention, std::span<Sharer> sharers) {
  std::vector<Player> all;
  for (Sharer& s : sharers) {
    s.busy = s.work = 0;
    all.push_back({&s, 1000 * s.client->quota.request.permille, 1000 * s.limit.permille});
  }
  for (int64_t at = 0; at < kWhole.permille;) {
    const int running = choose(rule, all, at);
    if (running == 0) return;
    const int crowd = crowding(Share{running}, kNone);
    const int64_t lasts = length(all, at, crowd);
    at += lasts;
    for (Player& p : all) {
      if (!p.running) continue;
      const Share sm = p.client().sm;
      p.used = std::min(p.used + lasts * kMillion / crowd, p.limit);
      p.sharer->busy = p.used;
      p.sharer->work += lasts * kMillion / slowness(sm, Share{running - sm.permille}, contention);
    }
  }
}

}  // namespace sluice::sim
