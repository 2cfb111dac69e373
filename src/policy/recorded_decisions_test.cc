// The bundles' decisions on random clusters over 20 ticks each, recorded: a refactoring must not
// change a decision. recorded_decisions.txt has a line "SEED ACTIONS HASH" for each of 150 clusters
// with functions of several bundles, recorded_bundles.txt a line "BUNDLE ACTIONS HASH" for each
// bundle alone; the hash is of the actions with their rules, not of the reasons' texts. After an
// intended change the decisions are recorded anew: the test prints the lines it found.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iomanip>
#include <map>
#include <sstream>

#include "tests/support/random_cluster.h"

namespace sluice::policy {
namespace {

constexpr uint64_t kSeeds = 150;
constexpr uint64_t kSeedsOfBundle = 30;
constexpr int kTicks = 20;

std::string text_of(const Slice& s, const Position& p) {
  std::ostringstream out;
  out << s.sm.permille << "x" << s.quota.request.permille << ".." << s.quota.limit.permille << " "
      << s.memory << " at " << p.sm_begin.permille << "," << p.time_begin.permille;
  return out.str();
}

std::string text_of(const Action& a) {
  std::ostringstream out;
  out << to_string(a.function) << " " << a.reason.rule << " ";
  if (const auto* start = std::get_if<StartInstance>(&a.what))
    out << "start " << start->revision << " " << start->first().device << " "
        << text_of(start->first().slice, start->first().position) << " batch " << start->batch;
  else if (const auto* stop = std::get_if<StopInstance>(&a.what))
    out << "stop " << stop->instance;
  else if (const auto* resize = std::get_if<ResizeInstance>(&a.what))
    out << "resize " << resize->instance << " "
        << text_of(resize->first().slice, resize->first().position);
  else
    out << "unmet " << std::setprecision(9) << std::get<Unmet>(a.what).gap;
  return out.str() + "\n";
}

// FNV-1a, 64 bit.
uint64_t hash(const std::string& text) {
  uint64_t h = 14695981039346656037u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return h;
}

std::string play(uint64_t seed, std::string& actions) {
  RandomCluster c(seed);
  c.recorded = true;
  if (seed % 3 == 0)
    for (FunctionView& f : c.now.functions)
      if (f.spec.policy == "has-gpu") f.spec.policy = "has-gpu-paper";
  int count = 0;
  for (int i = 0; i < kTicks; ++i) {
    c.change_rates();
    for (const Action& a : c.tick(Seconds(3))) {
      actions += text_of(a);
      ++count;
    }
  }
  std::ostringstream line;
  line << seed << " " << count << " " << std::hex << hash(actions);
  return line.str();
}

TEST(RecordedDecisions, AreMadeAgain) {
  std::ifstream file(SLUICE_RECORDED);
  std::string found_all, first_that_differs;
  bool same = true;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    std::string recorded, actions;
    std::getline(file, recorded);
    const std::string found = play(seed, actions);
    found_all += found + "\n";
    if (found != recorded && std::exchange(same, false)) first_that_differs = actions;
  }
  EXPECT_TRUE(same) << "found:\n" << found_all << "the first that differs:\n" << first_that_differs;
}

std::string play(std::string_view bundle) {
  int count = 0;
  std::string actions;
  for (uint64_t seed = 1; seed <= kSeedsOfBundle; ++seed) {
    RandomCluster c(seed);
    c.recorded = true;
    for (FunctionView& f : c.now.functions) f.spec.policy = bundle;
    for (int i = 0; i < kTicks; ++i) {
      c.change_rates();
      c.change_all_else();
      for (const Action& a : c.tick(Seconds(i % 5 == 4 ? 90 : 3))) {
        actions += text_of(a);
        ++count;
      }
    }
  }
  std::ostringstream line;
  line << bundle << " " << count << " " << std::hex << hash(actions);
  return line.str();
}

// A bundle that is not recorded yet has to decide the same twice.
TEST(RecordedDecisions, OfEachBundleAloneAreMadeAgain) {
  std::ifstream file(SLUICE_RECORDED_BUNDLES);
  std::map<std::string, std::string, std::less<>> recorded;
  for (std::string line; std::getline(file, line);) recorded[line.substr(0, line.find(' '))] = line;
  ASSERT_FALSE(recorded.empty()) << SLUICE_RECORDED_BUNDLES;
  for (const auto& [name, line] : recorded) EXPECT_NE(find_bundle(name), nullptr) << name;
  std::string found_all;
  bool same = true;
  for (const Bundle& bundle : bundles()) {
    const std::string found = play(bundle.name);
    found_all += found + "\n";
    const auto before = recorded.find(bundle.name);
    same &= found == (before != recorded.end() ? before->second : play(bundle.name));
  }
  EXPECT_TRUE(same) << "found:\n" << found_all;
}

}  // namespace
}  // namespace sluice::policy
