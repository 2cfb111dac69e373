// The nouns of `sluice get`, in users' words.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/words.h"

namespace sluice::cli {

struct Noun {
  std::string_view many, one, brief;
};
inline constexpr Noun kNouns[] = {
    {"functions", "function", "fn"},   {"revisions", "revision", "rev"},
    {"instances", "instance", "inst"}, {"jobs", "job", "job"},
    {"devices", "device", "dev"},      {"decisions", "decision", "dec"},
    {"profiles", "profile", "prof"},   {"nodes", "node", "no"},
    {"plans", "plan", "plan"},         {"checkpoints", "checkpoint", "cp"}};

// Turns each of a noun's words into the first.
inline CLI::Validator noun() {
  const auto turn = [](std::string& word) {
    std::string all;
    std::vector<std::string> words;
    for (const Noun& n : kNouns) {
      if (word == n.many || word == n.one || word == n.brief) {
        word = n.many;
        return std::string();
      }
      all += (all.empty() ? "" : ", ") + std::string(n.many) + " (" + std::string(n.brief) + ")";
      words.insert(words.end(), {std::string(n.many), std::string(n.one)});
    }
    return "'" + word + "' is none of " + all + did_you_mean(word, words);
  };
  return {turn, "NOUN"};
}

}  // namespace sluice::cli
