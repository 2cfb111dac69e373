#include "sim/sharing.h"

#include <algorithm>
#include <array>
#include <compare>
#include <vector>

namespace sluice::sim {
namespace {

constexpr int kHundredth = 10;  // of the window, in permille

constexpr std::array kRules{
    SharingRule{.arbiter = "planned", .keeps_phases = true, .keeps_requests = true},
    SharingRule{.arbiter = "deadline", .keeps_phases = true, .keeps_requests = true},
    SharingRule{.arbiter = "multi_token", .keeps_requests = true},
    SharingRule{.arbiter = "window", .keeps_requests = true, .fit = SharingRule::Fit::kLane},
    SharingRule{.arbiter = "introspective", .bounded = false},
    SharingRule{.arbiter = "tgs"},
    SharingRule{.arbiter = "share_fixed_limit", .fit = SharingRule::Fit::kAlways},
    SharingRule{.arbiter = "share_fixed_request", .lends = false, .fit = SharingRule::Fit::kAlways},
};

// A client in the window that is played.
struct Player {
  Sharer* sharer;
  int request, limit;  // of the window, in permille
  int used = 0;
  bool running = false;  // in this hundredth

  const policy::ShareClient& client() const { return *sharer->client; }
};

// The order of claims in a hundredth: the smaller goes first.
struct Claim {
  int order;     // of classes: in phase, under its request, borrower
  int64_t part;  // within one
  auto operator<=>(const Claim&) const = default;
};

Claim claim_of(const SharingRule& rule, const Player& p, int at) {
  const int begin = p.client().position.time_begin.permille;
  const bool lacks = rule.keeps_requests && p.used < p.request;
  if (lacks && rule.keeps_phases && begin <= at && at < begin + p.request) return {0, 0};
  if (lacks) return {1, p.used - p.request};
  return {2, int64_t{p.used} * 1'000'000 / p.limit};
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
int choose(const SharingRule& rule, std::vector<Player>& all, int at) {
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
int length(const std::vector<Player>& all, int at) {
  const bool waits =
      std::ranges::any_of(all, [](const Player& p) { return !p.running && p.used < p.limit; });
  int longest = waits ? kHundredth : kWhole.permille;
  for (const Player& p : all)
    if (p.running) longest = std::min(longest, p.limit - p.used);
  return std::min(longest, kWhole.permille - at);
}

}  // namespace

const SharingRule* find_sharing(std::string_view arbiter) {
  const auto found = std::ranges::find(kRules, arbiter, &SharingRule::arbiter);
  return found == kRules.end() ? nullptr : &*found;
}

int slowness(Share sm, Share others, Share contention) {
  const int shared = std::max(sm + others, kWhole).permille;
  return shared + shared * contention.permille / 1000 * others.permille / 1000;
}

void share_window(const SharingRule& rule, Share contention, std::span<Sharer> sharers) {
  std::vector<Player> all;
  for (Sharer& s : sharers) {
    s.busy = s.work = 0;
    all.push_back({&s, s.client->quota.request.permille, s.limit.permille});
  }
  for (int at = 0; at < kWhole.permille;) {
    const int running = choose(rule, all, at);
    if (running == 0) return;
    const int lasts = length(all, at);
    at += lasts;
    for (Player& p : all) {
      if (!p.running) continue;
      const Share sm = p.client().sm;
      p.used += lasts;
      p.sharer->busy += lasts * 1000;
      p.sharer->work += lasts * 1'000'000 / slowness(sm, Share{running - sm.permille}, contention);
    }
  }
}

}  // namespace sluice::sim
