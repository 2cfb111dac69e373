#include "control/decisions.h"

#include <algorithm>

#include "base/log.h"
#include "base/printable.h"
#include "wire/json/json.h"

namespace sluice::control {
namespace {

constexpr UnixMillis kAnother = 10'000;  // after such a pause a recorded vain one begins anew

std::string kind_of(const Decision& d) {
  return d.action + (d.fault.empty() ? " " : " in vain ") + d.reason.rule;
}

}  // namespace

void Decisions::OfFunction::take(const Decision& d) {
  last = d;
  if (!vain.contains(kind_of(d))) effective = d;
}

void Decisions::know(const FunctionName& f, std::optional<Decision> last) {
  functions_.try_emplace(f, OfFunction{.last = std::move(last)});
}

const Decision* Decisions::last(const FunctionName& f, UnixMillis now) const {
  const auto found = functions_.find(f);
  if (found == functions_.end() || !found->second.last) return nullptr;
  const OfFunction& of = found->second;
  const auto vain = of.vain.find(kind_of(*of.last));
  const bool over = vain != of.vain.end() && now - vain->second.last >= kAnother;
  return over && of.effective ? &*of.effective : &*of.last;
}

void Decisions::record(Decision d) {
  d.fault = printable(d.fault);  // a template's words may be its model's
  if (spdlog::should_log(spdlog::level::info))
    log::info("decision {}", wire::text_of({{"function", to_string(d.function)},
                                            {"action", d.action},
                                            {"subject", d.subject},
                                            {"reason", wire::to_json(d.reason)},
                                            {"fault", d.fault}}));
  if (auto f = functions_.find(d.function); f != functions_.end()) f->second.take(d);
  recorded_.push_back(std::move(d));
}

void Decisions::written(const std::vector<Decision>& numbered) {
  for (const Decision& d : numbered) {
    newest_ = std::max(newest_, d.number);
    if (auto f = functions_.find(d.function); f != functions_.end()) f->second.take(d);
  }
}

void Decisions::not_written(std::vector<Decision> decisions) {
  constexpr size_t kMost = 1000;
  decisions.insert(decisions.end(), recorded_.begin(), recorded_.end());
  if (decisions.size() > kMost) decisions.erase(decisions.begin(), decisions.end() - kMost);
  recorded_ = std::move(decisions);
}

// A long-lasting one is recorded again, with its repetitions.
void Decisions::record_vain(Decision d, Nanos least, Nanos pause) {
  constexpr UnixMillis kAgainAfter = 600'000;
  Vain& v = functions_[d.function].vain[kind_of(d)];
  const auto within = [&](UnixMillis since, UnixMillis most) {
    return d.at >= since && d.at - since < most;
  };
  if (!within(v.last, v.recorded == 0 ? pause / Millis(1) : kAnother)) v = {.since = d.at};
  v.last = d.at;
  if (v.recorded == 0 && within(v.since, least / Millis(1))) return;
  if (v.recorded != 0 && within(v.recorded, kAgainAfter)) {
    ++v.repeated;
    return;
  }
  if (v.recorded != 0) {
    d.reason.numbers.emplace_back("repeated", static_cast<double>(v.repeated));
    d.reason.text += " It was decided " + std::to_string(v.repeated) + " times in the last " +
                     std::to_string((d.at - v.recorded) / 1000) + " s.";
  }
  v.recorded = d.at;
  v.repeated = 0;
  record(std::move(d));
}

}  // namespace sluice::control
